"""The worker: owns tasks, runs their handlers, keeps their leases, and returns what they give.

One event loop does it all; handlers that are plain functions run in threads. Each state has a
coroutine or a method: connect and down (`_recover`), fetch and settle (`_pump`, `_exchange`), wait
(`_wait_loop`), beat and fence (`_beat_loop`), drain (`_drain`).
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import random
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import psycopg

from .calls import Interval, array, interval
from .connect import Conninfo, is_temporary, pause
from .errors import (
    Cancelled,
    IncompatibleError,
    LeaseLost,
    Shutdown,
    Stopped,
    TimeLimitExceeded,
    sqlstate,
)
from .link import Connection, Gone, Link, Row, sever
from .middleware import Middleware, around_handle
from .outcome import YIELD, Outcome, failure, of_error, of_value
from .queue import Queue, TaskFunction
from .run import FOREVER, Run, clock, stoppable
from .statements import (
    ABOUT,
    FEATURES,
    HEARTBEAT,
    PROTOCOL,
    STATUS,
    WAIT,
    Exchange,
    return_parameters,
)
from .task import Task
from .threads import Job, Threads
from .version import VERSION

log = logging.getLogger("scylla_pg.worker")

BATCH = 500
"""Tasks that one statement returns or owns."""
ENOUGH = 100
"""Results that wait for no more."""
FULL_PAUSE = 0.1
"""How long a worker is full before it waits for signals only."""
_NOTHING: AbstractContextManager[Any] = nullcontext()
STOP_PAUSE = 3.0
"""How long handlers have to end after Shutdown."""


class Worker:
    """Serves queues until it is told to stop.

    concurrency: how many handlers run at once.
    lease: how long a lease lasts without a heartbeat; None: as the task or its queue says.
    grace: seconds that handlers have to end on their own when the worker stops.
    prefetch: how many tasks it owns beyond those that run, for very short tasks.
    coalesce: seconds that a result waits for others while handlers run.
    name: what the server's views show; None: host, process and four random digits.
    wait: seconds that one statement waits for work.
    call_timeout: seconds after which a call that got no answer counts as lost.
    """

    def __init__(
        self,
        conninfo: Conninfo,
        queues: Queue | Sequence[Queue],
        *,
        concurrency: int = 10,
        lease: Interval | None = None,
        grace: float = 25.0,
        prefetch: int = 0,
        coalesce: float = 0.005,
        middleware: Sequence[Middleware] = (),
        name: str | None = None,
        wait: float = 30.0,
        call_timeout: float = 15.0,
    ) -> None:
        served = [queues] if isinstance(queues, Queue) else list(queues)
        if not 1 <= len(served) <= 16:
            raise ValueError(f"a worker serves 1 to 16 queues, not {len(served)}")
        if concurrency < 1:
            raise ValueError(f"concurrency is at least 1, not {concurrency}")
        self.name = name or _default_name()
        self.concurrency = concurrency
        self.middleware = tuple(middleware)
        self.stats: Counter[str] = Counter()
        """How many tasks were completed, aborted, retried, yielded, and lost or cancelled."""
        self._handlers = handlers(served)
        self._queues = array(queue.name for queue in served)
        actions = sorted({action for _, action in self._handlers})
        self._actions = array(actions)
        self._exchange_sql = Exchange(
            self.name,
            [queue.name for queue in served],
            actions,
            None if lease is None else interval(lease),
        )
        self._capacity = concurrency + prefetch
        self._grace = grace
        self._coalesce = coalesce
        self._wait = wait
        self._call_timeout = call_timeout
        self._conninfo = conninfo
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- running ----

    def run(self) -> None:
        """Serves until SIGTERM, SIGINT or drain_worker, in this thread; handlers end first.

        A second signal hands the tasks back at once.
        """
        run_all([self])

    def stop(self) -> None:
        """Begins to stop; a second time: hands back at once. May be called from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._stop)

    async def run_async(self) -> None:
        """Serves until `stop` or drain_worker, on the loop that runs. Handles no signals.

        To cancel this coroutine hands the tasks back at once.
        """
        if self._loop is not None:
            raise RuntimeError(f"worker {self.name} runs already")
        self._loop = asyncio.get_running_loop()
        self._begin()
        loops = [
            asyncio.create_task(loop, name=f"scylla_pg {self.name}")
            for loop in (self._wait_loop(), self._beat_loop(), self._recover())
        ]
        drained = asyncio.create_task(self._drain())
        running = {drained, *loops}
        try:
            while not drained.done():
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        except asyncio.CancelledError:
            self._stop()
            self._stop()
            await asyncio.shield(drained)
            raise
        finally:
            self._closing = True
            await self._close([drained, *loops])
            self._loop = None

    def _begin(self) -> None:
        size = min(4, self.concurrency)
        application = f"scylla-pg python/{VERSION} {self.name}"
        self._link = Link(self._conninfo, application, size, self._call_timeout)
        self._most_exchanges = max(1, size - 1)  # one place is the heartbeat's
        self._threads = Threads(f"scylla_pg-{self.name}")
        self._runs: dict[str, Run] = {}  # by token: all leases that are not known to have ended
        self._running = 0
        self._backlog: deque[Run] = deque()  # owned, not begun: at most `prefetch`
        self._done: deque[Run] = deque()  # ended, not returned
        self._done_at = 0.0
        self._asked = 0  # tasks that may come with the exchanges under way
        self._exchanges = 0
        self._settling = 0
        self._work = True  # there may be ready tasks
        self._up = False
        self._closing = False
        self._own_pause = 0
        self._own_timer: asyncio.TimerHandle | None = None
        self._pump_timer: asyncio.TimerHandle | None = None
        self._clock_offset = 0.0
        self._beat_now = asyncio.Event()
        self._beat_target = FOREVER
        self._beating = False
        self._signalled = False  # a lease has ended without this worker
        self._wanting = asyncio.Event()
        self._waiting: Connection | None = None
        self._wait_number = 0
        self._signals_only = False
        self._empty_hints = 0
        self._draining = asyncio.Event()
        self._at_once = asyncio.Event()
        self._idle = asyncio.Event()  # set: nothing runs and nothing is to be returned
        self._idle.set()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def _close(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        self._wanting.set()
        self._beat_now.set()
        await self._interrupt_wait()
        for task in tasks:
            if not task.done():
                task.cancel()
        await self._link.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait([*tasks, *self._tasks], timeout=2)
        await self._link.close()
        self._threads.close()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_ended)

    def _spawned_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("worker %s: a defect of this package", self.name, exc_info=error)

    # ---- CONNECT and DOWN ----

    async def _recover(self, attempt: int = 0) -> None:
        """Connects, heartbeats what is held, and lets the worker go on."""
        first = attempt == 0
        while not self._closing:
            if attempt:
                await asyncio.sleep(pause(attempt - 1))
            attempt += 1
            try:
                await self._check_server()
                # with nothing held, too: from then on the server keeps signals for this worker
                await self._beat(first=True)
            except (Gone, psycopg.Error) as error:
                if attempt in (1, 5) or attempt % 20 == 0:
                    log.warning("worker %s: no connection yet: %s", self.name, error)
                continue
            except IncompatibleError as error:
                if first:
                    raise
                log.error("worker %s: %s", self.name, error)  # an upgrade may be under way
                continue
            break
        if not self._up:
            log.info("worker %s serves %s", self.name, self._queues)
        self._up = True
        self._work = True
        self._pump()

    async def _check_server(self) -> None:
        try:
            rows = await self._link.run(ABOUT, ())
        except psycopg.Error as error:
            if sqlstate(error) in ("3F000", "42883"):
                raise IncompatibleError(
                    "this database has no scylla 0.2 or later: create extension scylla; "
                    f"or alter extension scylla update\nThe server said: {error}"
                ) from error
            raise
        about = json.loads(rows[0][0])
        if about["protocol"] > PROTOCOL or not FEATURES <= set(about["features"]):
            raise IncompatibleError(
                f"scylla {about['version']} of protocol {about['protocol']} does not work with "
                f"scylla-pg {VERSION}"
            )

    def _lost(self, error: Exception) -> None:
        """The server, or a connection, is gone. Handlers go on."""
        if not self._up or self._closing:
            return
        log.warning("worker %s: connection lost: %s", self.name, error)
        self._up = False
        self._spawn(self._link.clear())
        self._spawn(self._recover(1))

    # ---- FETCH and SETTLE ----

    def _free(self) -> int:
        return self._capacity - len(self._runs) - self._asked

    def _pump(self) -> None:
        """Starts the exchanges with the server that there is a reason for."""
        while self._up and not self._closing and self._exchanges < self._most_exchanges:
            due = self._settle_is_due()
            may_own = not self._draining.is_set() and self._own_timer is None
            if not due and not (may_own and self._work and self._free() > 0):
                break
            batch = self._next_batch()
            most = min(BATCH, self._free() + len(batch)) if may_own else 0
            self._exchanges += 1
            self._settling += len(batch)
            self._asked += most - len(batch) if most else 0
            self._spawn(self._exchange(batch, most))
        if self._wants_work():
            self._wanting.set()
            if self._signals_only:
                self._signals_only = False
                self._spawn(self._interrupt_wait())
        else:
            self._wanting.clear()
        if self._running == 0 and not (
            self._backlog or self._done or self._settling or self._asked
        ):
            self._idle.set()
        else:
            self._idle.clear()

    def _settle_is_due(self) -> bool:
        if not self._done:
            return False
        if len(self._done) >= ENOUGH or self._running == 0 or self._draining.is_set():
            return True
        left = self._done_at + self._coalesce - clock()
        if left <= 0:
            return True
        if self._pump_timer is None:
            self._pump_timer = asyncio.get_running_loop().call_later(left, self._pump_later)
        return False

    def _pump_later(self) -> None:
        self._pump_timer = None
        self._pump()

    def _next_batch(self) -> list[Run]:
        batch: list[Run] = []
        while self._done and len(batch) < BATCH:
            if self._done[0].alone and batch:
                break
            batch.append(self._done.popleft())
            if batch[0].alone:
                break
        self._done_at = clock()  # of those that are left
        return batch

    async def _exchange(self, batch: list[Run], most: int) -> None:
        """Returns a batch and owns up to `most` tasks, in one statement."""
        asked_at = clock()
        rows: list[Row] | None = None
        sql = self._exchange_sql
        try:
            if not batch:
                rows = await self._link.run(sql.owning, sql.own(most))
            else:
                returned = return_parameters(
                    [run.task.raw_id() for run in batch],
                    [run.token for run in batch],
                    [run.outcome or YIELD for run in batch],
                )
                if most:
                    params = sql.return_and_own(returned, most)
                    rows = await self._link.run(sql.both, params)
                else:
                    rows = await self._link.run(sql.returning, returned)
        except Gone as error:
            for run in batch:
                run.doubtful = True
            self._done.extendleft(reversed(batch))
            self._lost(error)
        except psycopg.Error as error:
            self._refused(batch, most, error)
        finally:
            self._exchanges -= 1
            self._settling -= len(batch)
            self._asked -= most - len(batch) if most else 0
        if rows is not None:
            if batch:
                self._settled(batch, rows[0][0].split(","))
            if most:
                self._owned(rows, most, asked_at)
        self._pump()

    def _settled(self, batch: list[Run], statuses: list[str]) -> None:
        for run, status in zip(batch, statuses, strict=True):
            self._runs.pop(run.token, None)
            if status == "aborted":
                self.stats["aborted"] += 1
            elif status != "-":
                self.stats[_COUNTED[run.outcome.kind] if run.outcome else "yielded"] += 1
            elif run.doubtful:
                self._settling += 1
                self._spawn(self._look_up(run))
            else:
                self._count_lost(run)

    async def _look_up(self, run: Run) -> None:
        """Whether a return whose answer was lost had worked: the task counts once."""
        kind = run.outcome.kind if run.outcome else "yield"
        try:
            status = await self._status(run)
        finally:
            self._settling -= 1
        if status == kind or (
            kind in ("retry", "yield") and status in ("ready", "waiting", "aborted")
        ):
            self.stats[_COUNTED[kind]] += 1
        else:
            self._count_lost(run)
        self._pump()

    async def _status(self, run: Run) -> str | None:
        """The task's status, if nothing owned it after this lease."""
        attempt = 0
        while True:
            try:
                rows = await self._link.run(STATUS, (run.task.raw_id(),))
                status, worker, owned_at = rows[0]
                return status if worker == self.name and owned_at <= run.owned_at else None
            except Gone as error:
                self._lost(error)
            except psycopg.Error as error:
                if not is_temporary(error):
                    return None  # deleted, or not for this role to see
            await asyncio.sleep(pause(attempt))
            attempt += 1

    def _count_lost(self, run: Run) -> None:
        self.stats["lost"] += 1
        log.info("worker %s: lease lost, result dropped: %r", self.name, run.task)

    def _refused(self, batch: list[Run], most: int, error: psycopg.Error) -> None:
        """The statement failed as a whole: nothing is returned, nothing owned."""
        if most or not batch:
            # what can be returned must not wait for what cannot be owned
            log.log(
                logging.INFO if is_temporary(error) else logging.WARNING,
                "worker %s: no tasks for now: %s",
                self.name,
                error,
            )
            delay = pause(self._own_pause)
            self._own_pause += 1
            if self._own_timer is None:
                self._own_timer = asyncio.get_running_loop().call_later(delay, self._own_again)
            self._done.extendleft(reversed(batch))
            return
        if len(batch) > 1:
            for run in batch:
                run.alone = True
            self._done.extendleft(reversed(batch))
            return
        run = batch[0]
        code = sqlstate(error) or ""
        if code[:2] in ("22", "54") and not (run.outcome and run.outcome.error and run.alone):
            # the server does not store this: the try has failed, and says why
            run.alone = True
            run.outcome = Outcome("retry", error=failure("result_refused", str(error)))
            self._done.appendleft(run)
            return
        if clock() > run.fence:
            self._runs.pop(run.token, None)
            self._count_lost(run)
            log.error("worker %s: could not return %r: %s", self.name, run.task, error)
            return
        log.warning("worker %s: cannot return %r yet: %s", self.name, run.task, error)
        self._settling += 1
        asyncio.get_running_loop().call_later(pause(3, 0.1), self._return_again, run)

    def _return_again(self, run: Run) -> None:
        self._settling -= 1
        self._done.append(run)
        self._pump()

    def _own_again(self) -> None:
        self._own_timer = None
        self._work = True
        self._pump()

    def _owned(self, rows: list[Row], most: int, asked_at: float) -> None:
        self._own_pause = 0
        count = 0
        for row in rows:
            if row[1] is None:
                continue
            count += 1
            if count == 1:
                self._clock_offset = row[15] - time.time()
            run = Run(row, self._handlers[row[3], row[4]], asked_at)
            self._runs[run.token] = run
            if self._draining.is_set():
                self._end(run, YIELD)
            elif self._running < self.concurrency:
                self._start(run)
            else:
                self._backlog.append(run)
            if run.beat_at < self._beat_target:
                self._beat_now.set()
        self._work = count == most
        if count:
            self._empty_hints = 0

    # ---- handlers ----

    def _start(self, run: Run) -> None:
        self._running += 1
        if run.function.time_limit is not None:
            run.stopping_timer = asyncio.get_running_loop().call_later(
                run.function.time_limit,
                self._stop_run,
                run,
                TimeLimitExceeded("the time limit is over"),
            )
        if run.function.is_async:
            # create_task would give it a name first, which takes as long as the rest
            run.asyncio_task = asyncio.Task(self._handle(run), loop=self._loop)
        else:
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()

            def report(outcome: Outcome | None, error: BaseException | None) -> None:
                with suppress(RuntimeError):  # the loop has ended without this thread
                    loop.call_soon_threadsafe(self._thread_ended, run, outcome, error)

            run.job = Job(lambda: context.run(self._call, run), report)
            self._threads.start(run.job)

    def _call(self, run: Run) -> Outcome | None:
        """In a thread: the handler, with its middleware around it."""
        args, kwargs = run.function.bind(run.task)
        with self._around(run.task):
            return of_value(run.function.function(*args, **kwargs))
        return None  # a middleware that swallows an error: completed

    def _around(self, task: Task) -> AbstractContextManager[Any]:
        if not self.middleware:
            return _NOTHING
        return around_handle(self.middleware, task)

    def _thread_ended(self, run: Run, outcome: Outcome | None, error: BaseException | None) -> None:
        self._threads.ended()
        self._handled(run, outcome, error)

    async def _handle(self, run: Run) -> None:
        """On the loop: the same."""
        outcome: Outcome | None = None
        failed: BaseException | None = None
        try:
            args, kwargs = run.function.bind(run.task)
            with self._around(run.task):
                value = await stoppable(run.function.function(*args, **kwargs), run)
                outcome = of_value(value)
        except BaseException as error:
            failed = error
        self._handled(run, outcome, failed)

    def _handled(self, run: Run, outcome: Outcome | None, error: BaseException | None) -> None:
        """A handler has ended: whether it gave a value or not, its place is free."""
        self._running -= 1
        if run.stopping_timer is not None:
            run.stopping_timer.cancel()
        if run.cause is None and clock() > run.fence:
            # a process that was frozen comes here before the fence is looked at
            run.cause = LeaseLost("no heartbeat in time")
        if self._runs.get(run.token) is run and run.outcome is None:
            if error is not None:
                if not isinstance(error, Stopped):
                    log.debug("%r failed", run.task, exc_info=error)
                outcome = of_error(error, run.cause, self._clock_offset)
            if run.is_dropped:
                del self._runs[run.token]
                self.stats["cancelled" if isinstance(run.cause, Cancelled) else "lost"] += 1
            else:
                self._end(run, outcome or Outcome("completed"))
        while self._backlog and self._running < self.concurrency:
            self._start(self._backlog.popleft())
        if self._pump_timer is None or self._running == 0 or len(self._done) >= ENOUGH:
            self._pump()

    def _end(self, run: Run, outcome: Outcome) -> None:
        run.outcome = outcome
        if not self._done:
            self._done_at = clock()
        self._done.append(run)

    def _stop_run(self, run: Run, cause: Stopped) -> None:
        """Stops a handler. The first cause counts, but that the lease is over overrules."""
        if run.outcome is not None:
            return
        if run.cause is not None and not (
            isinstance(cause, (Cancelled, LeaseLost)) and not run.is_dropped
        ):
            return
        run.cause = cause
        run.task.set_cause(cause)
        if run in self._backlog:
            self._backlog.remove(run)
            self._runs.pop(run.token, None)
            self.stats["cancelled" if isinstance(cause, Cancelled) else "lost"] += 1
        elif run.asyncio_task is not None:
            # not at once: a task that is cancelled before its first step would run nothing at all
            asyncio.get_running_loop().call_soon(run.asyncio_task.cancel)
        elif run.job is not None and run.function.interrupt:
            run.job.interrupt(cause)

    # ---- BEAT and FENCE ----

    async def _beat_loop(self) -> None:
        while not self._closing:
            now = clock()
            target = FOREVER
            beat = self._signalled
            self._beat_now.clear()
            for run in list(self._runs.values()):
                if run.is_dropped:
                    continue
                if run.outcome is None and now >= run.fence:
                    self._stop_run(run, LeaseLost("no heartbeat in time"))
                    continue
                beat = beat or now >= run.beat_at
                target = min(target, run.beat_at if run.beat_at > now else run.fence)
            if beat and self._up and not self._beating:
                self._beating, self._signalled = True, False
                self._spawn(self._beat_once())
            self._beat_target = target
            late = clock()
            with suppress(asyncio.TimeoutError):
                delay = None if target == FOREVER else max(0.001, target - clock())
                await asyncio.wait_for(self._beat_now.wait(), delay)
            late = clock() - max(late, target)
            if target != FOREVER and late > 1.0:
                log.warning(
                    "worker %s: the event loop stood still for %.1f s: "
                    "a handler that blocks should be a plain def, not async",
                    self.name,
                    late,
                )

    async def _beat_once(self) -> None:
        try:
            await self._beat()
        except Gone as error:
            self._lost(error)
        except psycopg.Error as error:
            log.warning("worker %s: heartbeat refused: %s", self.name, error)
            retry_at = clock() + 0.2
            for run in self._runs.values():
                run.beat_at = max(run.beat_at, retry_at)
        finally:
            self._beating = False
            self._beat_now.set()

    async def _beat(self, first: bool = False) -> None:
        """One heartbeat for all leases."""
        runs = [run for run in self._runs.values() if not run.is_dropped]
        if not runs and not first:
            return
        shares = [run.task.take_progress() for run in runs]
        noted = any(share is not None for share in shares)
        asked_at = clock()
        length = min((run.length for run in runs), default=FOREVER)
        try:
            rows = await self._link.run(
                HEARTBEAT,
                (
                    self.name,
                    array(run.task.raw_id() for run in runs),
                    array(run.token for run in runs),
                    array(shares) if noted else None,
                ),
                max(0.02, min(self._call_timeout, length / 6)),
            )
        except BaseException:
            for run, share in zip(runs, shares, strict=True):
                run.task.put_back_progress(share)
            raise
        for run, (state, deadline, now) in zip(runs, rows, strict=True):
            if state == "held":
                run.extend(deadline, now, asked_at)
            elif run.outcome is not None:
                run.beat_at = run.fence = FOREVER  # the answer to its return says what became of it
            elif state == "lost":
                self._stop_run(run, LeaseLost("another worker may have the task"))
            else:
                reason = {"gone": "deleted", "settled": "settled by another"}.get(state, state)
                self._stop_run(run, Cancelled(f"the task was {reason}"))

    # ---- WAIT ----

    def _wants_work(self) -> bool:
        return not self._work and self._up and not self._draining.is_set() and self._free() > 0

    async def _wait_loop(self) -> None:
        """Waits for work, for signals and for a request to stop, on a connection of its own."""
        attempt = 0
        connection: Connection | None = None
        try:
            while not self._closing:
                try:
                    if connection is None:
                        if attempt:
                            await asyncio.sleep(pause(attempt - 1))
                        attempt += 1
                        connection = await self._link.open()
                    await self._wait_once(connection)
                    attempt = 0
                except Gone as error:
                    if connection is not None:
                        await connection.close()
                        connection = None
                        self._lost(error)
                except psycopg.Error as error:
                    log.warning("worker %s: cannot wait for work: %s", self.name, error)
                    await asyncio.sleep(pause(attempt))
                    attempt += 1
        finally:
            if connection is not None:
                await connection.close()

    async def _wait_once(self, connection: Connection) -> None:
        if not self._wants_work():
            # a worker with enough to do; signals that come now are told when it waits
            try:
                await asyncio.wait_for(self._wanting.wait(), FULL_PAUSE)
                return
            except asyncio.TimeoutError:
                if not self._up:
                    return
        elif self._empty_hints > 2:
            await asyncio.sleep(random.uniform(0, min(1.0, 0.005 * 2**self._empty_hints)))
        if self._closing:
            return
        self._signals_only = not self._wants_work()
        actions = "{}" if self._signals_only else self._actions
        params = (self.name, self._queues, f"{self._wait} seconds", actions)
        self._waiting = connection
        self._wait_number += 1
        try:
            rows = await self._link.execute(connection, WAIT, params, self._wait + 10)
        except psycopg.errors.QueryCanceled:
            return
        finally:
            self._waiting = None
            self._signals_only = False
        event = rows[0][0]
        if event == "work":
            self._empty_hints += 1
            self._work = True
            self._pump()
        elif event == "signal":
            self._signalled = True
            self._beat_now.set()
        elif event == "drain":
            if not self._draining.is_set():
                log.info("worker %s is asked to stop", self.name)
                self._stop()
            await asyncio.sleep(FULL_PAUSE)  # it is told each time

    async def _interrupt_wait(self) -> None:
        connection, number = self._waiting, self._wait_number
        # again, if the request came before the statement
        while connection is not None and self._waiting is not None and self._wait_number == number:
            try:
                await connection.cancel_safe(timeout=2.0)
            except (psycopg.Error, OSError):
                sever(connection)
            await asyncio.sleep(0.01)

    # ---- DRAIN ----

    def _stop(self) -> None:
        if self._draining.is_set():
            self._at_once.set()
        self._draining.set()

    async def _drain(self) -> None:
        await self._draining.wait()
        log.info("worker %s stops: %s tasks running", self.name, self._running)
        ends_at = clock() + self._grace + STOP_PAUSE + 1.5
        for run in self._backlog:
            self._end(run, YIELD)
        self._backlog.clear()
        self._pump()
        await self._idle_within(self._grace)
        for run in list(self._runs.values()):
            self._stop_run(run, Shutdown("the worker stops"))
        await self._idle_within(STOP_PAUSE)
        for run in list(self._runs.values()):
            if run.outcome is None and not run.is_dropped:
                self._end(run, YIELD)
        self._pump()
        while (self._done or self._settling) and clock() < ends_at:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if self._done or self._settling:
            log.error("worker %s: %s tasks not handed back", self.name, len(self._runs))

    async def _idle_within(self, seconds: float) -> None:
        """Until nothing runs and all is returned, the time is over, or a second signal."""
        events = [asyncio.create_task(event.wait()) for event in (self._idle, self._at_once)]
        await asyncio.wait(events, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for event in events:
            event.cancel()


_COUNTED = {
    "completed": "completed",
    "aborted": "aborted",
    "retry": "retried",
    "yield": "yielded",
}


def run_all(workers: Sequence[Worker]) -> None:
    """Runs workers as one, in this thread, such as one for each database of a sharded application.

    Serves until SIGTERM or SIGINT, or until one of them ends, which stops the others; handlers end
    first. A second signal hands the tasks back at once. Raises what the first one raised.
    """
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_run_with_signals(loop, workers))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:  # a handler that does not end does not keep the process
            loop.run_until_complete(asyncio.wait(left, timeout=0.5))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


async def _run_with_signals(loop: asyncio.AbstractEventLoop, workers: Sequence[Worker]) -> None:
    def stop() -> None:
        for worker in workers:
            worker.stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        numbers = ()  # only the main thread gets signals
    for number in numbers:
        loop.add_signal_handler(number, stop)
    running = {asyncio.create_task(worker.run_async()) for worker in workers}
    ended: list[asyncio.Task[None]] = []
    try:
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            ended += done
            for worker in workers:
                worker._draining.set()  # pyright: ignore[reportPrivateUsage] # not a second signal
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    for task in ended:
        task.result()


def _default_name() -> str:
    host = socket.gethostname()[:80]
    return f"{host}:{os.getpid()}:{random.randrange(16**4):04x}"


def handlers(queues: Sequence[Queue]) -> dict[tuple[str, str], TaskFunction[Any, Any]]:
    """The handler for each queue and action that the worker can get.

    A named action is served in every queue of the worker. Where a pair has no handler the worker
    could not be told apart from one that has: it is refused here.
    """
    names = [queue.name for queue in queues]
    if len(set(names)) < len(names):
        raise ValueError("the same queue is given twice")
    actions = {action for queue in queues for action in queue.functions}
    if not actions:
        raise ValueError("no function is a task of these queues")
    found: dict[tuple[str, str], TaskFunction[Any, Any]] = {}
    for queue in queues:
        for action in actions:
            others = [other.functions[action] for other in queues if action in other.functions]
            if action in queue.functions:
                found[queue.name, action] = queue.functions[action]
            elif action and len(others) == 1:
                found[queue.name, action] = others[0]
            else:
                raise ValueError(
                    f"queue {queue.name!r} has no handler for action {action!r}, and which of the "
                    "others is meant is not clear: give it one, or serve it by a worker of its own"
                )
    return found
