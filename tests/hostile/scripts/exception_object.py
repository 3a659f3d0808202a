# R10: an AttributeError holds the object
async def orchestrate(ctx, args):
    try:
        return args.missing
    except AttributeError as error:
        return str(error.obj)
