# R10: format handed to map
async def orchestrate(ctx, args):
    return list(map("{0.__class__}".format, [args]))
