# R10: _site as a parameter
async def orchestrate(ctx, args):
    def helper(_site):
        return _site

    return helper(1)
