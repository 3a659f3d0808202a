# R10: getattr by another name
async def orchestrate(ctx, args):
    read = getattr
    return read(args, "__class__")
