# R10: the sandbox's own state
async def orchestrate(ctx, args):
    _wf_at[0] = "forged"
    return 1
