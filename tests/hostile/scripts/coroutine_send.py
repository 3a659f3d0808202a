# R10: a coroutine driven by hand
async def orchestrate(ctx, args):
    job = ctx.run("text.generate", {"prompt": "x"})
    return job.send(None)
