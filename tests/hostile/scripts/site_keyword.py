# R10: _site forged by keyword
async def orchestrate(ctx, args):
    return await ctx.run("text.generate", {"prompt": "x"}, _site="orchestrate/mail.send#0")
