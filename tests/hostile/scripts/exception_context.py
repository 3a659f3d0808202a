# R10: the exception behind the exception
async def orchestrate(ctx, args):
    try:
        return args["x"]
    except Exception as error:
        return str(error.__context__)
