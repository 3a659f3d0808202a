# R10: an own exception class
class Own(Exception):
    def __str__(self):
        return str(self.__traceback__)


async def orchestrate(ctx, args):
    raise Own("x")
