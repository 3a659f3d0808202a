# R10: a coroutine has a frame
async def orchestrate(ctx, args):
    job = ctx.run("text.generate", {"prompt": "x"})
    frame = job.cr_frame
    await job
    return str(frame.f_globals)
