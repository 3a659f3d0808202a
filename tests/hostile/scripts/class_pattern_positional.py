# R10: positional class patterns read __match_args__
async def orchestrate(ctx, args):
    match args:
        case dict(a, b):
            return [a, b]
    return None
