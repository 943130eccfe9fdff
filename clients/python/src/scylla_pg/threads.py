"""Threads for handlers that are plain functions."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from typing import Any

from .errors import Stopped

Report = Callable[[Any, BaseException | None], None]


class Job:
    """A call in a thread. What it gives or raises is reported from there, once."""

    def __init__(self, call: Callable[[], Any], report: Report) -> None:
        self._call = call
        self._report = report
        self._lock = threading.Lock()
        self._thread: int | None = None

    def interrupt(self, cause: Stopped) -> None:
        """Raises the cause in the thread, at its next line of Python. After its end: nothing."""
        with self._lock:
            if self._thread is not None:
                _raise_in(self._thread, type(cause))

    def run(self) -> None:
        value, error = None, None
        try:
            self._thread = threading.get_ident()
            value = self._call()
        except BaseException as raised:
            error = raised
        while True:  # an interrupt comes once, and may come here
            try:
                with self._lock:
                    self._thread = None
                break
            except Stopped as raised:
                error = error or raised
        self._report(value, error)


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


class Threads:
    """As many threads as were ever needed at once. They do not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._busy = 0
        self._count = 0

    def start(self, job: Job) -> None:
        """To be called from one thread only, the one that calls `ended`."""
        self._busy += 1
        if self._busy > self._count:
            self._count += 1
            name = f"{self._name}-{self._count}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._jobs.put(job)

    def ended(self) -> None:
        self._busy -= 1

    def close(self) -> None:
        """Lets each thread end after its job."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get()
                if job is None:
                    return
                job.run()
            except Stopped:
                continue  # an interrupt that came between two lines of the above
