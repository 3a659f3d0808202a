# R10: a metaclass runs code at definition
class Meta(type):
    pass


class Thing(metaclass=Meta):
    pass


async def orchestrate(ctx, args):
    return 1
