# R11: every stop caught
async def orchestrate(ctx, args):
    while True:
        try:
            return await ctx.run("mail.send", {"to": "x", "subject": "s", "body": "b"})
        except:
            continue
