# R10: everything of a module
from math import *


async def orchestrate(ctx, args):
    return 1
