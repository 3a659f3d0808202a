# R12: a payload of a gigabyte
async def orchestrate(ctx, args):
    return await ctx.run("text.generate", {"prompt": "x" * 10**9})
