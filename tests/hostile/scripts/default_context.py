# R02: a default keeps the context
async def orchestrate(ctx, args):
    async def helper(c=ctx):
        return c

    return await helper()
