# R02: another spelling of ctx is ctx
async def orchestrate(ctx, args):
    alias = ｃtx
    return alias
