# R10: an attribute in a format spec of an f-string
async def orchestrate(ctx, args):
    return f"{1:{args.__class__}}"
