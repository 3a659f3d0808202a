# R10: globals
async def orchestrate(ctx, args):
    return globals()["__builtins__"]
