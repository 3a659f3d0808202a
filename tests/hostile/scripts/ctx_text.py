# R02: ctx as text
async def orchestrate(ctx, args):
    return f"{ctx}"
