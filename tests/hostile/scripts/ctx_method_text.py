# R02: a method of ctx as text
async def orchestrate(ctx, args):
    return f"{ctx.run}"
