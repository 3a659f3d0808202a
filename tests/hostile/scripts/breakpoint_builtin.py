# R10: a debugger
async def orchestrate(ctx, args):
    breakpoint()
    return 1
