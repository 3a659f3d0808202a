# R10: global reaches the module
async def orchestrate(ctx, args):
    global orchestrate
    orchestrate = None
    return 1
