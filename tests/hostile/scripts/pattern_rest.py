# R10: the rest of a mapping pattern binds a reserved name
async def orchestrate(ctx, args):
    match args:
        case {"x": 1, **_host_log}:
            return 1
    return 0
