# R10: a function has globals
async def orchestrate(ctx, args):
    def helper():
        return 1

    return str(helper.__globals__)
