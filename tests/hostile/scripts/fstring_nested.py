# R10: an attribute in a nested f-string
async def orchestrate(ctx, args):
    return f"{f'{args.__class__}'}"
