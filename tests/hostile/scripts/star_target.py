# R10: a star target binds a reserved name
async def orchestrate(ctx, args):
    first, *_wf_rest = args["items"]
    return first
