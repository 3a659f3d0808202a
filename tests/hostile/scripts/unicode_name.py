# R10: a name that is normalised to a reserved one
async def orchestrate(ctx, args):
    _ｗf_at = 1
    return 1
