# R02: ctx subscripted
async def orchestrate(ctx, args):
    return ctx["run"]("mail.send", {})
