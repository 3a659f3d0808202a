# R10: a name deleted
async def orchestrate(ctx, args):
    x = 1
    del x
    return 1
