# R10: a handler binds a reserved name
async def orchestrate(ctx, args):
    try:
        return args["x"]
    except KeyError as _wf_err:
        return 1
