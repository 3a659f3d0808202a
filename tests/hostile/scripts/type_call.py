# R10: type with three arguments makes a class
async def orchestrate(ctx, args):
    return type("Thing", (), {"__repr__": lambda self: "x"})()
