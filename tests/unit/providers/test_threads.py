"""Threads for handlers."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from addendum.providers.threads import LoopThread, NoThread, Threads


def test_threads_are_used_again() -> None:
    """One call after the other needs one thread; two at a time need two."""
    threads = Threads()

    async def main() -> set[str]:
        names = {await threads.run(lambda: str(threading.get_ident())) for _ in range(5)}
        barrier = threading.Barrier(2, timeout=10)
        await asyncio.gather(threads.run(barrier.wait), threads.run(barrier.wait))
        return names

    assert len(asyncio.run(main())) == 1
    assert threads._count == 2


def test_threads_end_when_idle() -> None:
    """A thread without work ends after a while, and a new one starts when needed."""
    threads = Threads(idle_seconds=0.0)

    async def main() -> None:
        found = await threads.run(threading.current_thread)
        found.join(10)
        assert not found.is_alive()
        assert await threads.run(lambda: 1) == 1

    asyncio.run(main())


def test_threads_are_daemons() -> None:
    """No thread holds the process."""

    async def main() -> bool:
        return bool(await Threads().run(lambda: threading.current_thread().daemon))

    assert asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), KeyboardInterrupt()])
def test_what_is_raised_comes_out(error: BaseException) -> None:
    """What the function raises is raised where it is awaited, and the thread lives on."""
    threads = Threads(most=1)

    def fail() -> None:
        raise error

    async def main() -> None:
        with pytest.raises(type(error)):
            await threads.run(fail)
        assert await threads.run(lambda: 1) == 1

    asyncio.run(main())


def test_stop_iteration() -> None:
    """A `StopIteration` can't be raised in a coroutine, so it comes as a `RuntimeError` that names it."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await Threads().run(lambda: next(iter(())))

    asyncio.run(main())


def test_context_variables() -> None:
    """The function sees the context variables of its caller."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")

    async def main() -> str:
        variable.set("inside")
        return str(await Threads().run(variable.get))

    assert asyncio.run(main()) == "inside"


def test_given_up_before_it_started() -> None:
    """A call that waits for a thread and is cancelled never runs, and says so; one that runs is cancelled as usual."""
    threads = Threads(most=1)
    entered, release = threading.Event(), threading.Event()
    ran: list[int] = []

    def block() -> None:
        entered.set()
        release.wait(10)

    async def main() -> None:
        first = asyncio.create_task(threads.run(block))
        await asyncio.to_thread(entered.wait)
        second = asyncio.create_task(threads.run(lambda: ran.append(2)))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(NoThread):
            await second
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        release.set()
        await threads.run(lambda: ran.append(3))

    asyncio.run(main())
    assert ran == [3]


def test_loop_survives_what_leaves_through_it() -> None:
    """A task's `SystemExit` ends that task, and the loop goes on."""
    thread = LoopThread()

    async def leave() -> None:
        raise SystemExit(1)

    async def answer() -> int:
        return 1

    with pytest.raises(SystemExit):
        asyncio.run_coroutine_threadsafe(leave(), thread.loop()).result(10)
    assert asyncio.run_coroutine_threadsafe(answer(), thread.loop()).result(10) == 1
    thread.close()


def test_loop_closes_with_what_runs_on_it() -> None:
    """Closing cancels what still runs; asked again, there is another loop."""
    thread = LoopThread()
    first = thread.loop()
    assert thread.loop() is first
    ended: list[str] = []
    entered = threading.Event()

    async def wait() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    asyncio.run_coroutine_threadsafe(wait(), first)
    entered.wait(10)
    thread.close()
    assert (ended, first.is_closed()) == (["cancelled"], True)
    assert thread.loop() is not first
    thread.close()
    thread.close()
