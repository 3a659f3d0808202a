# R10: a class pattern reads an attribute without a dot
async def orchestrate(ctx, args):
    match args:
        case object(__class__=kind):
            return str(kind)
    return None
