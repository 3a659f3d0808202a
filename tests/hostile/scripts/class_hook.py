# R10: a class runs code when the host looks at it
class Hook:
    def __repr__(self):
        return open("/etc/passwd").read()


async def orchestrate(ctx, args):
    return Hook()
