# R10: arguments of an exception can be objects
async def orchestrate(ctx, args):
    try:
        raise ValueError(args)
    except ValueError as error:
        return error.args[0]
