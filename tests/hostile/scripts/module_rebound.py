# R10: a module's function is replaced
import json


async def orchestrate(ctx, args):
    json.dumps = lambda value: "forged"
    return 1
