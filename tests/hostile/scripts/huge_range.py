# R03: a constant is no bound if nobody can pay it
async def orchestrate(ctx, args):
    for i in range(10**9):
        await ctx.run("text.generate", {"prompt": "x"})
    return 1
