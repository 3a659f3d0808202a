# R00: type parameters
def helper[T](x: T) -> T:
    return x


async def orchestrate(ctx, args):
    return 1
