# R10: an attribute that is normalised to a dunder
async def orchestrate(ctx, args):
    return args.__ｃlass__
