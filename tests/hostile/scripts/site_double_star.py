# R10: _site forged by a double star
async def orchestrate(ctx, args):
    extra = {"_site": "orchestrate/mail.send#0"}
    return await ctx.run("text.generate", {"prompt": "x"}, **extra)
