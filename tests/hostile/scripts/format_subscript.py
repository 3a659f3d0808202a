# R10: a format string reads a subscript
async def orchestrate(ctx, args):
    return "{0[secret]}".format(args)
