# R10: a builtin that the sandbox uses is replaced
isinstance = lambda value, kind: True


async def orchestrate(ctx, args):
    return 1
