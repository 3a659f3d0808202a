# R02: arguments of run by a star
async def orchestrate(ctx, args):
    return await ctx.run(*["mail.send", {"to": "x"}])
