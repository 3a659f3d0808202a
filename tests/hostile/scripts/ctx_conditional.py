# R02: ctx behind a condition
async def orchestrate(ctx, args):
    context = ctx if args else None
    return 1
