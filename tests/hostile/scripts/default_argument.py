# R10: a default is evaluated at definition
async def orchestrate(ctx, args):
    def helper(f=eval):
        return f("1")

    return helper()
