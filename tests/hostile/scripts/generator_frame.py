# R10: a generator has a frame
async def orchestrate(ctx, args):
    g = (x for x in args["items"])
    return str(g.gi_frame.f_back.f_globals)
