# R10: a traceback leads to frames
async def orchestrate(ctx, args):
    try:
        return args["missing"]
    except KeyError as error:
        return str(error.__traceback__.tb_frame.f_globals)
