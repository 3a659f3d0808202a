# R00: a form feed in the indentation
async def orchestrate(ctx, args):
    return 1
