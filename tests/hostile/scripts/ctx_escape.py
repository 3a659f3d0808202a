# R02: ctx in a lambda's default
async def orchestrate(ctx, args):
    keep = lambda c=ctx: c
    return keep()
