# R10: an annotation is evaluated
async def orchestrate(ctx, args):
    def helper(x: __import__("os").system("true")):
        return x

    return helper(1)
