# R10: a format string out of a conditional expression
async def orchestrate(ctx, args):
    return ("{0.__class__}" if args else "{}").format(args)
