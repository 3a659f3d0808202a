# R10: a decorator is a call that no call node shows
@eval
@"__import__('os')".format
def helper():
    return 1


async def orchestrate(ctx, args):
    return helper
