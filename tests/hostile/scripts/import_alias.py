# R10: an import binds a reserved name
import json as _wf_at


async def orchestrate(ctx, args):
    return 1
