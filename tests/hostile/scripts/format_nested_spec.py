# R10: the attribute is in a nested format spec
async def orchestrate(ctx, args):
    return "{0:{1.__class__}}".format("x", args)
