# R10: a format string reads an attribute of a keyword
async def orchestrate(ctx, args):
    return "{value.real}".format(value=1)
