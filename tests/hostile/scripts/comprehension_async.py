# R10: an async comprehension
async def orchestrate(ctx, args):
    return [x async for x in args["items"]]
