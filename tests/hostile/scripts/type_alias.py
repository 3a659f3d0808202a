# R00: a type statement
type X = int


async def orchestrate(ctx, args):
    return 1
