# R10: the bound method is stored first
async def orchestrate(ctx, args):
    render = "{0.__class__}".format
    return render(args)
