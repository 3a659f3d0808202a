# R10: the class of a value and its methods
async def orchestrate(ctx, args):
    return type(args).mro()
