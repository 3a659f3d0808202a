# R10: an attribute behind =
async def orchestrate(ctx, args):
    return f"{args.__class__=}"
