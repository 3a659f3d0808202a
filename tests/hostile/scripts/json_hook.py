# R10: json calls a function of the script
import json


async def orchestrate(ctx, args):
    return json.dumps(args, default=lambda value: value)
