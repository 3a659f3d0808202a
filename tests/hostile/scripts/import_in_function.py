# R10: an import in a function
async def orchestrate(ctx, args):
    import subprocess
    return subprocess.run("true")
