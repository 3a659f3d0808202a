# R10: a name put together at run time
async def orchestrate(ctx, args):
    name = chr(95) * 2 + "class" + chr(95) * 2
    return getattr(args, name)
