# R10: CapabilityError is replaced
async def orchestrate(ctx, args):
    CapabilityError = ValueError
    return 1
