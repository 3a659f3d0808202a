# ruff: noqa
# mypy: ignore-errors
# The CPython worker: one script, one process. It imports nothing of the package; its text is started with `-c`, and the
# guest's own code is its argument, so that it is compiled and run before there is a script.
#
# Frames in both directions: four bytes of length (big-endian), then JSON. Host: {"v": 1, "start": {...}}, then
# {"v": 1, "answers": [[n, answer], ...]}. Worker: {"v": 1, "s": n, "say": [...]} for each message of the guest (see
# body.py), then one of "wait", "end" and "over"; s counts from 0. Its first frame is "ready": its time counts from there.
import os, sys  # isort: skip
import json, math, re, resource, signal, time  # isort: skip

VERSION = 1
SCRIPT = "script.py"
NAMES = (
    "abs all any bool bytes chr dict divmod enumerate filter float format frozenset int isinstance iter len list map "
    "max min next ord pow print range repr reversed round set slice sorted str sum tuple type zip "
    "ArithmeticError AssertionError AttributeError BaseException Exception FileNotFoundError ImportError IndexError "
    "KeyError KeyboardInterrupt LookupError MemoryError NameError NotImplementedError OSError OverflowError "
    "PermissionError RecursionError RuntimeError StopIteration SystemExit TimeoutError TypeError ValueError "
    "ZeroDivisionError"
).split()
MODULES = {"json": json, "math": math, "re": re}
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


class Pipe:
    # Reads and writes frames. What is written is kept back until the turn ends, so that a limit's signal in the middle
    # of it can't tear a frame.
    def __init__(self, read, write):
        self.read_fd, self.write_fd = read, write
        self.kept, self.size, self.sent, self.largest = [], 0, 0, 1 << 20

    def receive(self):
        size = int.from_bytes(self.exactly(4), "big")
        message = json.loads(self.exactly(size))
        if message.get("v") != VERSION:
            os._exit(3)
        return message

    def exactly(self, size):
        parts = []
        while size:
            part = os.read(self.read_fd, min(size, 1 << 20))
            if not part:
                os._exit(0)  # the host let go
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def send(self, kind, value):
        data = json.dumps({"v": VERSION, "s": self.sent, kind: value}, separators=(",", ":")).encode()
        if len(data) > self.largest:
            self.over("message")
        self.sent += 1
        self.kept.append(len(data).to_bytes(4, "big") + data)
        self.size += len(data)
        if self.size > 1 << 20:
            self.flush()

    def flush(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF, signal.SIGXCPU})
        data, self.kept, self.size = memoryview(b"".join(self.kept)), [], 0
        while data:
            data = data[os.write(self.write_fd, data) :]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF, signal.SIGXCPU})

    def over(self, limit, line=0):
        data = json.dumps({"v": VERSION, "s": self.sent, "over": limit, "line": line}).encode()
        self.kept = [*self.kept, len(data).to_bytes(4, "big") + data]
        self.flush()
        os._exit(4)


class Future:
    __slots__ = ("done", "value", "error", "waiters")

    def __init__(self):
        self.done, self.value, self.error, self.waiters = False, None, None, []

    def __await__(self):
        if not self.done:
            yield self
        if self.error is not None:
            raise self.error
        return self.value

    def settle(self, value=None, error=None):
        if not self.done:
            self.done, self.value, self.error = True, value, error
            READY.extend(self.waiters)
            self.waiters = []


class Task(Future):
    __slots__ = ("coroutine",)

    def __init__(self, coroutine):
        super().__init__()
        self.coroutine = coroutine

    def step(self):
        try:
            waits = self.coroutine.send(None)
            while waits.done:
                waits = self.coroutine.send(None)
            waits.waiters.append(self)
        except StopIteration as end:
            self.settle(end.value)
        except BaseException as error:
            self.settle(error=error)


class Gather:
    # Like Monty's: the children start when it is awaited, and it can be awaited again after it ended.
    __slots__ = ("awaited", "out")

    def __init__(self, awaited):
        self.awaited, self.out = awaited, None

    def __await__(self):
        if self.out is None:
            self.out = Future()
            children = [Task(a if hasattr(a, "send") else plain(a)) for a in self.awaited]
            left = [len(children)]
            if not children:
                self.out.settle([])
            for child in children:
                child.waiters.append(Watch(child, children, left, self.out))
            READY.extend(children)
        return (yield from self.out.__await__())


async def plain(awaited):
    return await awaited


class Watch:
    __slots__ = ("child", "children", "left", "out")

    def __init__(self, child, children, left, out):
        self.child, self.children, self.left, self.out = child, children, left, out

    def step(self):
        self.left[0] -= 1
        if self.child.error is not None:
            self.out.settle(error=self.child.error)
        elif self.left[0] == 0:
            self.out.settle([child.value for child in self.children])


READY, WAITING, CALLS = [], {}, [0]


def host_function(pipe):
    def _wf_host(*message):
        pipe.send("say", message)
        if len(message) == 7 and message[1] == "call":
            CALLS[0] += 1
            future = WAITING[CALLS[0]] = Future()
            return future

    return _wf_host


def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
    if name in MODULES and level == 0:
        return MODULES[name]
    raise ImportError(f"import of {name!r} is not allowed here")


def script_line(frame):
    while frame is not None:
        if frame.f_code.co_filename == SCRIPT:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def limit(pipe, limits):
    used = [0.0]

    def turn():
        # The clock runs for this process's computing only. Called when a turn starts.
        left = limits["total_seconds"] - time.process_time()
        used[0] = min(limits["turn_seconds"], left)
        signal.setitimer(signal.ITIMER_PROF, max(used[0], 0.001))

    def ring(number, frame):
        whole = number == signal.SIGXCPU or used[0] < limits["turn_seconds"]
        pipe.over("total_seconds" if whole else "turn_seconds", script_line(frame))

    signal.signal(signal.SIGPROF, ring)
    signal.signal(signal.SIGXCPU, ring)
    seconds = math.ceil(limits["total_seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory"] + (64 << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.get("processes") is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"],) * 2)
    pipe.largest = 2 * limits["message"] + 65536
    return turn


def from_allocator(error):
    # A MemoryError that no `raise` statement made.
    if type(error) is not MemoryError or error.args:
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename != SCRIPT:
        return True
    import dis

    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] != "RAISE_VARARGS"


def report(pipe, error, CapabilityError):
    if from_allocator(error):
        pipe.over("memory")
    lines, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == SCRIPT and code.co_name not in COMPREHENSIONS:
            lines.append([trace.tb_lineno, code.co_name])
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == SCRIPT:
        lines.append([error.lineno or 0, "<module>"])
    failure = None
    if isinstance(error, CapabilityError):
        failure = [error.code, error.message, error.retryable, error._wf_identity]
    text = str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    kind = {"error": "PatternError"}.get(type(error).__name__, type(error).__name__)
    pipe.send("end", [kind, text, lines[:1000], failure])


def prepare(pipe, prelude):
    guest = {"__name__": "guest", "_wf_gather": lambda *awaited: Gather(awaited), "_wf_host": host_function(pipe)}
    guest["_wf_spent"] = lambda error: from_allocator(error) and pipe.over("memory")
    exec(compile(prelude, "prelude.py", "exec"), guest)
    return guest


def run(pipe, guest, start, turn):
    full = vars(sys.modules["builtins"])
    inside = {"__import__": guarded_import, **{name: full[name] for name in NAMES}}
    guest["_wf_nonce"] = start["nonce"]
    CapabilityError = guest["CapabilityError"]
    try:
        names = ("_wf_at", "_wf_call", "_wf_err", "_wf_cap", "_wf_exc", "_wf_end", "CapabilityError")
        script = {"__name__": "script", "__builtins__": inside, **{name: guest[name] for name in names}}
        pipe.send("ready", 0)
        pipe.flush()
        turn()
        exec(compile(start["script"], SCRIPT, "exec"), script)
        main = Task(guest["_wf_main"](script["orchestrate"], start["args"], start["known"]))
        READY.append(main)
        while True:
            while READY and not main.done:
                READY.pop(0).step()
            if main.done:
                break
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.send("wait", len(WAITING))
            pipe.flush()
            message = pipe.receive()
            turn()
            for call, answer in message["answers"]:
                WAITING.pop(call).settle(answer)
        if main.error is not None:
            raise main.error
        pipe.send("end", main.value)
    except BaseException as error:
        report(pipe, error, CapabilityError)
    pipe.flush()
    os._exit(0)  # a race's losers are dropped as they are, without their `finally`


def main():
    pipe = Pipe(os.dup(0), os.dup(1))
    for number in (0, 1, 2):
        os.close(number)
    sys.stdin = sys.stdout = sys.stderr = None  # `print` goes nowhere
    sys.setrecursionlimit(1000)
    guest = prepare(pipe, sys.argv[1])
    start = pipe.receive()["start"]
    run(pipe, guest, start, limit(pipe, start["limits"]))


main()
