# R10: with binds whatever it likes
async def orchestrate(ctx, args):
    with args["x"] as _host_call:
        return 1
