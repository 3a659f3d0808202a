# R10: a submodule of an allowed module
async def orchestrate(ctx, args):
    import json.decoder
    return 1
