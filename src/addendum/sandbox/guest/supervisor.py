# ruff: noqa
# mypy: ignore-errors
# The first process of a container. It starts the worker as its child, under the filter that bubblewrap's worker has,
# and ends when the worker ends or when the host lets go of standard input; with it the kernel ends all that is left
# in the container. So nothing outlives a host that was killed, whatever the script does: not even one that sleeps.
#
# Arguments: the worker's text, its argument, the filters by machine (JSON, hexadecimal), and a name that only marks the
# process.
import os, select, sys  # isort: skip
import ctypes, json  # isort: skip

DUMPABLE, NO_NEW_PRIVILEGES, SECCOMP, FILTER = 4, 38, 22, 2


class Program(ctypes.Structure):
    _fields_ = [("steps", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def main():
    text, prelude, filters = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    code = bytes.fromhex(filters[os.uname().machine])
    control = ctypes.CDLL(None, use_errno=True).prctl
    control.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    # Same user, same container: without this the worker could write into this process's memory through /proc.
    if control(DUMPABLE, 0, None, 0, 0) or control(NO_NEW_PRIVILEGES, 1, None, 0, 0):
        os._exit(70)
    lives, ends = os.pipe()
    if os.fork() == 0:
        os.close(lives)  # `ends` is closed by the kernel, when this process is gone
        program = Program(len(code) // 8, code)
        if control(SECCOMP, FILTER, ctypes.cast(ctypes.byref(program), ctypes.c_void_p), 0, 0):
            os._exit(70)
        sys.argv[1:] = [prelude]
        exec(compile(text, "worker.py", "exec"), {"__name__": "__main__"})
        os._exit(0)
    os.close(ends)
    os.close(1)
    os.close(2)
    poll = select.poll()
    poll.register(0, 0)  # no event but the hang-up: what is in the pipe is the worker's
    poll.register(lives, 0)
    poll.poll()
    os._exit(0)


main()
