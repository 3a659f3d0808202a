# R10: except* has its own control flow
async def orchestrate(ctx, args):
    try:
        return args["x"]
    except* KeyError:
        ctx.log("x")
    return 1
