# R10: another spelling of eval is eval
async def orchestrate(ctx, args):
    return ｅval("1")
