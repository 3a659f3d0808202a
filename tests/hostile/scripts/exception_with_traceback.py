# R10: with_traceback and add_note change an exception
async def orchestrate(ctx, args):
    try:
        return args["x"]
    except KeyError as error:
        error.add_note("x")
        raise error.with_traceback(None)
