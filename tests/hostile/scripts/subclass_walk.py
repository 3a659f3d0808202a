# R10: the classic walk
async def orchestrate(ctx, args):
    return ().__class__.__base__.__subclasses__()
