# R00: text that reads otherwise than it runs
async def orchestrate(ctx, args):
    access = "user‮ ⁦# check⁩ ⁦"
    return access
