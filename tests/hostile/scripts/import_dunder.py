# R10: the function behind import
async def orchestrate(ctx, args):
    return __import__("os").getcwd()
