# R10: a reserved name made nonlocal
async def orchestrate(ctx, args):
    _wf_x = 1

    def f():
        nonlocal _wf_x
        _wf_x = 2

    f()
    return 1
