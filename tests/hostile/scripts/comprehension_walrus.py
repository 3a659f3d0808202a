# R10: a walrus in a comprehension rebinds a reserved name
async def orchestrate(ctx, args):
    return [(_host_call := x) for x in [1]]
