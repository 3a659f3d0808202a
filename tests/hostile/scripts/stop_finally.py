# R11: a return in finally drops what was raised
async def orchestrate(ctx, args):
    try:
        return await ctx.run("mail.send", {"to": "x", "subject": "s", "body": "b"})
    finally:
        return 1
