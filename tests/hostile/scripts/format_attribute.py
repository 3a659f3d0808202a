# R10: a format string reads an attribute
async def orchestrate(ctx, args):
    return "{0.__class__.__init__.__globals__}".format(args)
