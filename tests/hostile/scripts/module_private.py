# R10: a private name of a module
import re


async def orchestrate(ctx, args):
    return re._cache
