# R02: an attribute of ctx
async def orchestrate(ctx, args):
    return str(ctx.__dict__)
