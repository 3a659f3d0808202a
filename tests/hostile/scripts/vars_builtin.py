# R10: vars and dir
async def orchestrate(ctx, args):
    return [vars(), dir(args)]
