# ruff: noqa
# mypy: ignore-errors
# Runs unchanged on Monty and on CPython, behind one of the two heads. No builtin's name may stand in an f-string:
# prelude.py keeps the ones that are used here from what the script calls by the same name.
#
# The host is reached by one function: _wf_host(nonce, kind, a, b, c, d, served). It returns at once for all kinds but
# "call", for which it returns the answer (Monty, when nothing else can run) or something to await for it.
# An answer is [1, value] or [0, code, message, retryable, identity], with one more element when the host hands over
# known answers: the JSON text of {identity: answer}. One alone comes as a list, as reading the first JSON text of a turn
# costs Monty more than all else that it does for a call. Those of a batch, which share that, come as JSON text with a
# "+" in front, the last one with a "!": a text is read faster than a list is handed over.
_wf_at = [""]  # the path text of the function that is entered next
_wf_used = {}  # identity text without ":n" -> how often it was used
_wf_known = {}  # identity text -> answer: calls of the main strand that are settled already
_wf_served = []  # calls that were answered from _wf_known and are not reported yet, in four lines each: identity,
# name, take, payload; without name and payload, calls that an answer of a batch reached. No line has a break of its own,
# so they travel as one text.
_wf_nothing = {}


class _wf_Ctx:
    async def run(self, prefix, position, name, payload=_wf_nothing, *, take=1):
        identity = (_wf_at[0] if prefix is None else prefix) + position
        used = _wf_used.get(identity, 0)
        _wf_used[identity] = used + 1
        if used:
            identity = f"{identity}:{used}"
        if not _wf_plain(payload, 0):
            _wf_refuse(payload, "", 0, f"The payload of {name}")
        if take != 1 or type(take) is not int:
            _wf_check_take(take)
        if identity in _wf_known:
            # As canonical as it can be said here: the host needn't write it anew to compare it with what it has.
            _wf_served.append(f"{identity}\n{name}\n{take}\n{_wf_sorted(payload)}")
            answer = _wf_known.pop(identity)
            if answer[0]:
                return answer[1]
            raise _wf_failure(answer[1], answer[2], answer[3], answer[4])
        return await _wf_ask(identity, name, _wf_dumps(payload), take)

    async def now(self, prefix, position):
        return await _wf_read(prefix, position, "ctx.now", "{}")

    async def random(self, prefix, position):
        return await _wf_read(prefix, position, "ctx.random", "{}")

    async def uuid(self, prefix, position):
        return await _wf_read(prefix, position, "ctx.uuid", "{}")

    async def sleep(self, prefix, position, seconds):
        if type(seconds) is not int and type(seconds) is not float:
            raise TypeError(f"ctx.sleep takes a number of seconds, not a {_wf_kind(seconds)}.")
        if not 0 <= seconds < 9007199254740992:
            raise ValueError("ctx.sleep takes a number of seconds that is not negative.")
        await _wf_read(prefix, position, "ctx.sleep", _wf_sorted({"seconds": seconds}))

    def log(self, text):
        _wf_tell("say", "log", str(text))

    def phase(self, title):
        _wf_tell("say", "phase", str(title))

    async def parallel(self, prefix, position, branches, *, return_errors=False):
        frame = _wf_enter(prefix, position)
        branches = list(branches)
        _wf_tell("fan", frame, "parallel", len(branches))
        return await _wf_all(frame, branches, return_errors)

    async def pipeline(self, prefix, position, items, *stages, return_errors=False):
        frame = _wf_enter(prefix, position)
        items = list(items)
        _wf_tell("fan", frame, "pipeline", len(items))

        async def through(path, item, index):
            value = item
            for stage in stages:
                _wf_at[0] = path
                value = await stage(value, item, index)
            return value

        lines = [through(f"{frame}[{index}] > ", item, index) for index, item in enumerate(items)]
        return await _wf_all(frame, lines, return_errors)

    async def dag(self, prefix, position, nodes, *, return_errors=False):
        frame = _wf_enter(prefix, position)
        nodes = _wf_graph(nodes)
        _wf_tell("fan", frame, "dag", list(nodes))
        return await _wf_nodes(frame, nodes, return_errors)

    async def race(self, prefix, position, branches):
        frame = _wf_enter(prefix, position)
        branches = list(branches)
        if not branches:
            raise ValueError("ctx.race needs at least one branch.")
        _wf_tell("fan", frame, "race", len(branches))
        return await _wf_race(frame, branches)


def _wf_tell(kind, a=None, b=None, c=None):
    _wf_host(_wf_nonce, kind, a, b, c, None, "\n".join(_wf_served))
    _wf_served.clear()


async def _wf_ask(identity, name, text, take):
    answer = _wf_host(_wf_nonce, "call", identity, name, text, take, "\n".join(_wf_served))
    _wf_served.clear()
    if type(answer) is not list:
        answer = await answer
        if type(answer) is not list:
            # One of a batch: the host has to see that they come in their order, and that nothing comes between. The last
            # one says so by itself, the others with it.
            _wf_served.append(f"{identity}\n\n0\n")
            if answer[0] == "!":
                _wf_tell("handed")
            answer = _wf_loads(answer[1:])
    if answer[0]:
        if len(answer) == 3:
            _wf_known.update(_wf_loads(answer[2]))
        return answer[1]
    if len(answer) == 6:
        _wf_known.update(_wf_loads(answer[5]))
    raise _wf_failure(answer[1], answer[2], answer[3], answer[4])


def _wf_enter(prefix, position):
    identity = (_wf_at[0] if prefix is None else prefix) + position
    used = _wf_used.get(identity, 0)
    _wf_used[identity] = used + 1
    return f"{identity}:{used}" if used else identity


async def _wf_read(prefix, position, name, text):
    identity = _wf_enter(prefix, position)
    if identity in _wf_known:
        _wf_served.append(f"{identity}\n{name}\n1\n{text}")
        answer = _wf_known.pop(identity)
        if answer[0]:
            return answer[1]
        raise _wf_failure(answer[1], answer[2], answer[3], answer[4])
    return await _wf_ask(identity, name, text, 1)


def _wf_call(prefix, position, awaited):
    # Not async: the script awaits what it gets back at once, so nothing comes between, and a frame less is entered.
    identity = prefix + position
    used = _wf_used.get(identity, 0)
    _wf_used[identity] = used + 1
    _wf_at[0] = f"{identity}:{used} > " if used else f"{identity} > "
    return awaited


def _wf_end(value):
    # The end of a slice that a bound of the script rests on: counted from the back, it would let more through.
    if type(value) is int and value < 0:
        raise ValueError(f"A slice ends at {value}, and the bound of this script needs an end from 0 on: max(0, ...).")
    return value


async def _wf_branch(path, awaited):
    _wf_at[0] = path  # the first thing that the branch's own task does
    return await awaited


# A branch is a gather of one. Awaiting it again after it failed raises its error with the script's own frames, on
# Monty too, where raising a caught error again would lose them.


async def _wf_all(frame, branches, return_errors):
    lines = [_wf_gather(_wf_branch(f"{frame}[{index}] > ", awaited)) for index, awaited in enumerate(branches)]

    async def settle(line):
        try:
            return (True, (await line)[0])
        except Exception as error:
            return (return_errors, _wf_cap(error))

    ended = await _wf_gather(*[settle(line) for line in lines])
    for index, end in enumerate(ended):
        if not end[0]:
            await lines[index]
    return [end[1] for end in ended]


async def _wf_race(frame, branches):
    lines = [_wf_gather(_wf_branch(f"{frame}[{index}] > ", awaited)) for index, awaited in enumerate(branches)]
    ended = [None for line in lines]  # then True or False
    choice = []  # the first to succeed; then the one that the host decided for

    async def settle(index, line):
        try:
            await line
            ended[index] = True
        except Exception:
            ended[index] = False
        if len(choice) == 2 and choice[1] == index:
            if not ended[index]:
                choice[1] = choice[0]
            raise RuntimeError("won")
        if not choice and ended[index]:
            choice.append(index)
            winner = (await _wf_ask(frame, "ctx.race", '{"winner": ' + str(index) + "}", 1))["winner"]
            if not 0 <= winner < len(lines) or ended[winner] is False:
                winner = index
            choice.append(winner)
            if ended[winner]:
                raise RuntimeError("won")

    try:
        await _wf_gather(*[settle(index, line) for index, line in enumerate(lines)])
    except RuntimeError:
        pass
    if not choice:
        await lines[0]
    _wf_tell("won", frame, choice[1])
    return (await lines[choice[1]])[0]


def _wf_graph(nodes):
    if type(nodes) is not dict:
        raise TypeError(f"ctx.dag takes a dict of nodes, not a {_wf_kind(nodes)}.")
    graph = {}
    for name, node in nodes.items():
        if type(name) is not str:
            raise TypeError(f"ctx.dag: a node's name is text, not a {_wf_kind(name)}.")
        graph[name] = (node[0], list(node[1]))
    for name, node in graph.items():
        for need in node[1]:
            if need not in graph:
                raise ValueError(f"ctx.dag: {name!r} needs {need!r}, which is no node.")
    left = dict(graph)
    while left:
        free = [name for name, node in left.items() if not [need for need in node[1] if need in left]]
        if not free:
            names = sorted(left)
            raise ValueError(f"ctx.dag: there is a cycle among {names}.")
        for name in free:
            left.pop(name)
    return graph


async def _wf_nodes(frame, graph, return_errors):
    waiting = {name: len(node[1]) for name, node in graph.items()}
    users = {name: [user for user, node in graph.items() for need in node[1] if need == name] for name in graph}
    done = {}
    failed = {}
    errors = {}

    async def work(name):
        _wf_at[0] = f"{frame}[{_wf_dumps(name)}] > "
        run, needs = graph[name]
        return await run(*[done[need] for need in needs])

    async def node(name):
        # A node that ends starts those that it made ready: there are no tasks and no events on Monty.
        lost = [need for need in graph[name][1] if need in errors]
        if lost:
            errors[name] = CapabilityError("skipped", f"{name} needs {lost[0]}, which failed.")
        else:
            line = _wf_gather(work(name))
            try:
                done[name] = (await line)[0]
            except Exception as error:
                failed[name] = line
                errors[name] = _wf_cap(error)
        ready = []
        for user in users[name]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
        if ready:
            await _wf_gather(*[node(user) for user in ready])

    await _wf_gather(*[node(name) for name in graph if waiting[name] == 0])
    if not return_errors:
        for name in graph:
            if name in failed:
                await failed[name]
    return {name: errors[name] if name in errors else done[name] for name in graph}


def _wf_kind(value):
    return type(value).__name__


def _wf_check_take(take):
    if type(take) is not int:
        raise TypeError(f"take is a whole number, not a {_wf_kind(take)}.")
    if not 1 <= take < 9007199254740992:
        raise ValueError("take counts from 1.")


def _wf_plain(value, depth):
    # Whether JSON can say the value. What an object mostly has in it is looked at here, without a call.
    kind = type(value)
    if kind is dict:
        if depth > 63:
            return False
        for key, item in value.items():
            if type(key) is not str or (_wf_unsound is not None and _wf_unsound(key)):
                return False
            kind = type(item)
            if kind is int:
                if not -9007199254740992 < item < 9007199254740992:
                    return False
            elif kind is not str or _wf_unsound is not None:
                if not _wf_plain(item, depth + 1):
                    return False
        return True
    if kind is str:
        return _wf_unsound is None or not _wf_unsound(value)
    if kind is list or kind is tuple:
        if depth > 63:
            return False
        for item in value:
            if not _wf_plain(item, depth + 1):
                return False
        return True
    if kind is int:
        return -9007199254740992 < value < 9007199254740992
    if kind is float:
        return value - value == 0
    return value is None or kind is bool


def _wf_refuse(value, where, depth, what):
    # Raises with the place and the way out, for the first part of the value that _wf_plain refuses.
    kind = type(value)
    says = f"{what} can't be sent as JSON: "
    place = f" (at {where[:80] or 'the top'}). "
    if kind is dict or kind is list or kind is tuple:
        if depth > 63:
            raise ValueError(f"{says}it nests deeper than 64 levels{place}Flatten it.")
        for key, item in value.items() if kind is dict else enumerate(value):
            if kind is dict and type(key) is not str:
                raise TypeError(f"{says}the key {key!r} is a {_wf_kind(key)}, not text{place}Write str(key).")
            if kind is dict and _wf_unsound is not None and _wf_unsound(key):
                raise ValueError(f"{says}a key has a lone surrogate{place}Send text that is valid Unicode.")
            _wf_refuse(item, f"{where}/{key}", depth + 1, what)
    elif kind is str:
        if _wf_unsound is not None and _wf_unsound(value):
            raise ValueError(f"{says}the text has a lone surrogate{place}Send text that is valid Unicode.")
    elif kind is int:
        if not -9007199254740992 < value < 9007199254740992:
            raise ValueError(f"{says}the integer is beyond 2^53{place}Send it as a string.")
    elif kind is float:
        if value - value != 0:
            raise ValueError(f"{says}{value!r} is no JSON number{place}Send null or a string.")
    elif value is not None and kind is not bool:
        raise TypeError(
            f"{says}a {_wf_kind(value)} is no JSON value{place}"
            "Build it from dicts, lists, text, numbers, booleans and None."
        )


async def _wf_main(run, args, known):
    _wf_known.update(_wf_loads(known))
    line = _wf_gather(run(_wf_ctx, _wf_loads(args)))
    try:
        await line
    except Exception:
        pass
    # Not reached after a limit of the interpreter: that tells a script's own TimeoutError from the limit's.
    _wf_tell("end")
    value = (await line)[0]
    if not _wf_plain(value, 0):
        _wf_refuse(value, "", 0, "The result")
    return _wf_dumps(value)


_wf_ctx = _wf_Ctx()
