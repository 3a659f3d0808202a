# R10: format_map does the same
async def orchestrate(ctx, args):
    return "{a.__class__}".format_map({"a": args})
