# R11: a stop under a variable's name
async def orchestrate(ctx, args):
    kind = Exception
    try:
        return 1
    except kind:
        return 2
