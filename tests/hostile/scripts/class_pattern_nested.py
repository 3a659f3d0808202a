# R10: a class pattern hides in an or pattern
async def orchestrate(ctx, args):
    match args:
        case [str() | dict(__len__=3), *_]:
            return 1
    return None
