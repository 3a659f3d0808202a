# R10: a function has code
async def orchestrate(ctx, args):
    return (lambda: 1).__code__.co_consts
