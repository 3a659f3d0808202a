# R10: the format string is put together
async def orchestrate(ctx, args):
    text = "{0." + "__class__" + "}"
    return text.format(args)
