# R10: the sandbox's own function
async def orchestrate(ctx, args):
    return await _host_call("site", [], 0, "mail.send", {})
