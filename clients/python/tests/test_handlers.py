"""What a handler gets, how it ends, and what becomes of the task then."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from conftest import Server, serving, until

from scylla_pg import (
    Abort,
    Client,
    Queue,
    Snooze,
    Stopped,
    Task,
    TaskAbortedError,
    TaskCancelledError,
    TimeLimitExceeded,
    Worker,
)


@pytest.fixture
def worker(server: Server, queue: Queue) -> Worker:
    """Made with the queue's functions: define them first, then serve."""
    return LateWorker(server, queue)  # type: ignore[return-value]


class LateWorker:
    def __init__(self, server: Server, queue: Queue) -> None:
        self._make = lambda **options: Worker(server.dsn, queue, **options)

    def __call__(self, **options: Any) -> Worker:
        return self._make(**options)


def test_task_has_what_was_submitted(queue: Queue, client: Client, worker: Any) -> None:
    seen: list[Task] = []

    @queue.task(time_limit=5)
    def look(task: Task, n: int) -> int:
        seen.append(task)
        return n + 1

    id = look.using(
        post_result=True, key="k", group_key="g", priority=3, max_tries=4, meta={"a": "b"}
    ).submit(n=41)
    with serving(worker()):
        assert client.result(id) == 42
    task = seen[0]
    assert (task.id, task.queue, task.action, task.spec) == (id, queue.name, "look", {"n": 41})
    assert (task.key, task.group_key, task.priority, task.meta) == ("k", "g", 3, {"a": "b"})
    assert (task.tries, task.max_tries, task.is_last_try, task.num_failures) == (1, 4, False, 0)
    assert task.deadline is not None and task.created < task.deadline
    assert abs((task.deadline - task.created).total_seconds()) < 60


def test_async_and_plain_handlers(queue: Queue, client: Client, worker: Any) -> None:
    loops: set[int] = set()

    @queue.task
    async def on_the_loop() -> str:
        loops.add(threading.get_ident())
        return "async"

    @queue.task
    def in_a_thread() -> str:
        assert threading.get_ident() not in loops
        return "thread"

    ids = [f.using(post_result=True).submit() for f in (on_the_loop, in_a_thread)]
    with serving(worker()) as running:
        assert [client.result(id) for id in ids] == ["async", "thread"]
    assert running.stats == {"completed": 2}


def test_results_of_any_kind(queue: Queue, client: Client, worker: Any) -> None:
    values = [None, 0, "", False, [], {"a": [1, 2.5, None]}, 2**63 - 1, "🦑\\\"'{},NULL"]

    @queue.task
    def give(n: int) -> Any:
        return values[n]

    ids = [give.using(post_result=True).submit(n=n) for n in range(len(values))]
    with serving(worker()):
        assert [client.result(id) for id in ids] == values


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_error_is_stored_with_its_traceback(
    queue: Queue, client: Client, worker: Any, kind: str
) -> None:
    def deeper() -> None:
        raise LookupError("no such customer \0 \ud83d")

    if kind == "async":

        @queue.task(action="fail", max_tries=2, retry_interval=0.05, post_result=True)
        async def fail() -> None:
            deeper()
    else:

        @queue.task(action="fail", max_tries=2, retry_interval=0.05, post_result=True)
        def fail() -> None:
            deeper()

    id = fail.submit()
    with serving(worker()) as running:
        with pytest.raises(TaskAbortedError):
            client.result(id)
    errors = client.task(id)["errors"]
    assert [error["code"] for error in errors] == ["LookupError", "LookupError", "tries_exhausted"]
    assert errors[0]["description"].startswith("no such customer")
    assert errors[0]["args"]["type"] == "builtins.LookupError"
    assert "in deeper" in errors[0]["args"]["traceback"]
    assert "worker.py" not in errors[0]["args"]["traceback"]
    assert running.stats == {"retried": 1, "aborted": 1}


def test_retry_waits_as_the_server_says(queue: Queue, client: Client, worker: Any) -> None:
    tries: list[int] = []

    @queue.task(retry_interval=0.2, post_result=True)
    def fail_once(task: Task) -> int:
        tries.append(task.tries)
        if task.tries == 1:
            raise RuntimeError
        return task.tries

    id = fail_once.submit()
    with serving(worker()):
        assert client.result(id) == 2
    assert tries == [1, 2]
    first, second = (
        entry["time"] for entry in client.task(id)["history"] if entry["_typ"] == "TaskAssignment"
    )
    assert second > first


def test_abort_is_final(queue: Queue, client: Client, worker: Any) -> None:
    @queue.task(post_result=True)
    async def refuse() -> None:
        raise Abort("bad_address", "no such street", street="High Street", odd=object())

    @queue.task(post_result=True)
    def refuse_shortly() -> None:
        raise Abort("nope")

    ids = refuse.submit(), refuse_shortly.submit()
    with serving(worker()):
        for id in ids:
            with pytest.raises(TaskAbortedError):
                client.result(id)
    task = client.task(ids[0])
    assert (task["status"], task["tries"]) == ("aborted", 1)
    assert task["errors"][0]["code"] == "bad_address"
    assert task["errors"][0]["description"] == "no such street"
    assert "High Street" in task["errors"][0]["args"]["street"]
    assert client.task(ids[1])["errors"][0]["code"] == "nope"


def test_snooze_does_not_count_the_try(queue: Queue, client: Client, worker: Any) -> None:
    begun: list[float] = []

    @queue.task(post_result=True)
    def later(task: Task) -> int:
        begun.append(time.monotonic())
        if len(begun) == 1:
            raise Snooze(timedelta(seconds=0.5))
        return task.tries

    id = later.submit()
    with serving(worker()) as running:
        assert client.result(id) == 1
    assert 0.4 < begun[1] - begun[0] < 3
    assert client.task(id)["tries"] == 1
    assert running.stats == {"yielded": 1, "completed": 1}


def test_spec_that_does_not_fit_the_signature(queue: Queue, client: Client, worker: Any) -> None:
    @queue.task
    def f(n: int) -> None: ...

    ids = [
        client.submit(queue.name, spec, action="f", max_tries=1)
        for spec in ({"m": 1}, {"n": 1, "m": 2}, [1])
    ]
    with serving(worker()):
        until(lambda: all(client.task(id)["status"] == "aborted" for id in ids))
    for id in ids:
        assert client.task(id)["errors"][0]["code"] == "TypeError"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("error", [Unspeakable(), Snooze(float("inf")), Snooze("soon")])  # type: ignore[arg-type]
def test_error_that_cannot_be_read_is_a_retry(
    queue: Queue, client: Client, worker: Any, error: Exception
) -> None:
    @queue.task(max_tries=1)
    def plain() -> None:
        raise error

    @queue.task(max_tries=1)
    async def on_the_loop() -> None:
        raise error

    ids = [plain.submit(), on_the_loop.submit()]
    with serving(worker(concurrency=1)):
        until(lambda: all(client.task(id)["status"] == "aborted" for id in ids))
    for id in ids:
        assert client.task(id)["errors"][0]["code"] == "invalid_error"


@pytest.mark.parametrize("value", ["a\0b", float("nan"), object(), "x" * 2_000_000])
def test_result_that_cannot_be_stored_fails_the_try_alone(
    queue: Queue, client: Client, worker: Any, value: Any
) -> None:
    @queue.task(max_tries=1)
    async def bad() -> Any:
        return value

    @queue.task
    async def good() -> str:
        return "good"

    ids = [good.submit() for _ in range(5)]
    wrong = bad.submit()
    ids += [good.submit() for _ in range(5)]
    with serving(worker(concurrency=20)):
        until(lambda: client.task(wrong)["status"] == "aborted")
        until(lambda: all(client.task(id)["status"] == "completed" for id in ids))
    assert client.task(wrong)["errors"][0]["code"] in (
        "ValueError",
        "TypeError",
        "result_refused",
    )


def test_action_without_a_handler_is_left_alone(
    server: Server, queue: Queue, client: Client, worker: Any
) -> None:
    @queue.task
    def known() -> None: ...

    other = client.submit(queue.name, action="unknown")
    id = known.using(post_result=True).submit()
    with serving(worker()):
        client.result(id)
    task = client.task(other)
    assert (task["status"], task["tries"], task["history"]) == ("ready", 0, [])


def test_order_of_priority_and_age(queue: Queue, client: Client, worker: Any) -> None:
    order: list[int] = []

    @queue.task
    def note(n: int) -> None:
        order.append(n)

    for n, priority in enumerate([0, 5, 0, 9]):
        note.using(priority=priority).submit(n=n)
    with serving(worker(concurrency=1)):
        until(lambda: len(order) == 4)
    assert order == [3, 1, 0, 2]


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_concurrency_is_never_exceeded(
    server: Server, queue: Queue, client: Client, worker: Any, kind: str
) -> None:
    lock, now, most, total = threading.Lock(), 0, 0, 0

    def begin() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)

    def end() -> None:
        nonlocal now, total
        with lock:
            now -= 1
            total += 1

    if kind == "async":

        @queue.task(action="work")
        async def work() -> None:
            begin()
            await asyncio.sleep(0.002)
            end()
    else:

        @queue.task(action="work")
        def work() -> None:
            begin()
            time.sleep(0.002)
            end()

    client.submit_many(queue.name, [{}] * 1000, action="work")
    with serving(worker(concurrency=7)):
        until(lambda: server.statuses(queue.name) == {"completed": 1000})
    assert (total, most, server.most_leases(queue.name)) == (1000, 7, 7)


def test_prefetch_owns_more_than_runs(
    server: Server, queue: Queue, client: Client, worker: Any
) -> None:
    go = threading.Event()

    @queue.task
    def work() -> None:
        go.wait(20)

    client.submit_many(queue.name, [{}] * 10, action="work")
    with serving(worker(concurrency=2, prefetch=3)):
        until(lambda: server.statuses(queue.name) == {"running": 5, "ready": 5})
        go.set()
        until(lambda: server.statuses(queue.name) == {"completed": 10})


def test_several_queues_in_order(server: Server, client: Client, queue_name: str) -> None:
    order: list[str] = []
    queues = [Queue(f"{queue_name}-{n}", client=client) for n in range(16)]
    for queue in queues:

        @queue.task(action="note")
        def note(task: Task) -> None:
            order.append(task.queue)

    for queue in reversed(queues):
        for _ in range(3):
            client.submit(queue.name, action="note")
    with serving(Worker(server.dsn, queues, concurrency=1)):
        until(lambda: len(order) == 48)
        client.submit(queues[9].name, action="note")
        until(lambda: len(order) == 49)
    assert order == [queue.name for queue in queues for _ in range(3)] + [queues[9].name]


def test_each_pair_of_queue_and_action_needs_a_handler(server: Server) -> None:
    mail, report, urgent = Queue("mail"), Queue("report"), Queue("urgent")

    @mail.task
    def welcome() -> None: ...

    @report.task
    def monthly() -> None: ...

    worker = Worker(server.dsn, [urgent, mail, report])  # a named action is served in each
    assert worker.name.count(":") == 2
    with pytest.raises(ValueError, match="no function"):
        Worker(server.dsn, urgent)
    with pytest.raises(ValueError, match="twice"):
        Worker(server.dsn, [mail, Queue("mail")])
    with pytest.raises(ValueError, match="16 queues"):
        Worker(server.dsn, [Queue(f"q{n}") for n in range(17)])
    with pytest.raises(ValueError, match="concurrency"):
        Worker(server.dsn, mail, concurrency=0)

    @report.task(action="")
    def anything() -> None: ...

    with pytest.raises(ValueError, match="'urgent' has no handler for action ''"):
        Worker(server.dsn, [urgent, report])


def test_groups_in_order(server: Server, queue: Queue, client: Client, worker: Any) -> None:
    server.execute("select scylla.configure_queue(%s, max_running_per_group => 1)", queue.name)
    order: dict[str, list[int]] = {"a": [], "b": []}

    @queue.task
    async def note(task: Task, n: int) -> None:
        await asyncio.sleep(0.001 * (n % 3))
        order[task.group_key or ""].append(n)

    for n in range(30):
        note.using(group_key="ab"[n % 2]).submit(n=n)
    with serving(worker(concurrency=8)):
        until(lambda: sum(map(len, order.values())) == 30)
    assert order["a"] == list(range(0, 30, 2)) and order["b"] == list(range(1, 30, 2))


def test_time_limit(queue: Queue, client: Client, worker: Any) -> None:
    seen: list[str] = []

    @queue.task(time_limit=0.2, max_tries=1)
    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except TimeLimitExceeded as cause:
            seen.append(str(cause))
            raise

    @queue.task(time_limit=0.2, max_tries=1)
    def slow_thread() -> None:
        try:
            while True:
                time.sleep(0.01)
        except TimeLimitExceeded:
            seen.append("thread")
            raise

    @queue.task(time_limit=0.2, max_tries=1)
    def slow_sleep(task: Task) -> None:
        task.sleep(30)

    @queue.task(time_limit=0.1)
    async def finishes_all_the_same() -> str:
        try:
            await asyncio.sleep(30)
        except TimeLimitExceeded:
            return "partly"
        return ""

    ids = [slow.submit(), slow_thread.submit(), slow_sleep.submit()]
    partly = finishes_all_the_same.using(post_result=True).submit()
    with serving(worker()):
        until(lambda: all(client.task(id)["status"] == "aborted" for id in ids))
        assert client.result(partly) == "partly"
    assert sorted(seen) == ["the time limit is over", "thread"]
    for id in ids:
        error = client.task(id)["errors"][0]
        assert (error["code"], error["description"]) == ("time_limit", "the time limit is over")


def test_own_timeouts_of_a_handler_stay_its_own(queue: Queue, client: Client, worker: Any) -> None:
    @queue.task(time_limit=10)
    async def impatient() -> str:
        try:
            await asyncio.wait_for(asyncio.sleep(30), 0.05)
        except asyncio.TimeoutError:
            pass
        inner = asyncio.create_task(asyncio.sleep(30))
        inner.cancel()
        try:
            await inner
        except Stopped:
            return "taken for the worker's"
        except asyncio.CancelledError:
            return "mine"
        return ""

    id = impatient.using(post_result=True).submit()
    with serving(worker()):
        assert client.result(id) == "mine"


def test_progress_goes_with_the_heartbeat(
    server: Server, queue: Queue, client: Client, worker: Any
) -> None:
    go = threading.Event()

    @queue.task
    def halfway(task: Task) -> None:
        with pytest.raises(ValueError):
            task.progress(1.5)
        task.progress(0.5)
        go.wait(20)

    id = halfway.submit()
    with serving(worker(lease=0.6)):
        until(lambda: client.task(id)["progress"] == 0.5)
        go.set()
        until(lambda: client.task(id)["progress"] == 1)


def test_result_of_a_cancelled_task(queue: Queue, client: Client) -> None:
    id = client.submit(queue.name, post_result=True)
    with pytest.raises(TimeoutError):
        client.result(id, timeout=0.05)
    assert client.wait(id, timeout=0.05) is None
    client.cancel(id)
    assert client.wait(id) == "cancelled"
    with pytest.raises(TaskCancelledError):
        client.result(id)


def test_context_variables_reach_threads(queue: Queue, client: Client, worker: Any) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("v", default="unset")

    @queue.task
    def read() -> str:
        before = variable.get()
        variable.set("changed")  # and stays here
        return before

    ids = [read.using(post_result=True).submit() for _ in range(3)]
    with serving(worker(concurrency=1)):
        assert [client.result(id) for id in ids] == ["unset"] * 3
