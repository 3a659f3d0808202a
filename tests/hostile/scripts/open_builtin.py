# R10: a file
async def orchestrate(ctx, args):
    return open("/etc/passwd").read()
