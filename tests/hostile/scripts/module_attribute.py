# R10: a module leads to other modules
import json


async def orchestrate(ctx, args):
    return json.codecs.builtins.open("/etc/passwd").read()
