# R10: a comprehension hides a dunder name
async def orchestrate(ctx, args):
    return [__builtins__ for __builtins__ in [1]]
