# R10: json calls a function while reading
import json


async def orchestrate(ctx, args):
    return json.loads("{}", object_hook=lambda value: value)
