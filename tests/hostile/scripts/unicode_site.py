# R10: a keyword that is normalised to _site
async def orchestrate(ctx, args):
    return await ctx.run("text.generate", {"prompt": "x"}, _ｓite="x")
