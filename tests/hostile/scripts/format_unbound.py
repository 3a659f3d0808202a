# R10: format through the class
async def orchestrate(ctx, args):
    return str.format("{0.__class__}", args)
