# R10: a pattern binds a reserved name
async def orchestrate(ctx, args):
    match args:
        case {"x": _wf_cap}:
            return 1
    return 0
