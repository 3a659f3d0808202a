# R05: a fan-out of a billion
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("text.generate", {"prompt": "x"}) for _ in range(10**9)])
