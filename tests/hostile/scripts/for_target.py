# R10: a loop binds an attribute
async def orchestrate(ctx, args):
    for args.x in [1]:
        ctx.log("x")
    return 1
