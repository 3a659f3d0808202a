# R10: names are mangled in a class
class A:
    def f(self):
        return self.__secret


async def orchestrate(ctx, args):
    return 1
