# R10: a NameError holds a name
async def orchestrate(ctx, args):
    try:
        return args["x"]
    except Exception as error:
        return str(error.name)
