# R10: a method of a class on another value
async def orchestrate(ctx, args):
    return str.join(",", args["names"])
