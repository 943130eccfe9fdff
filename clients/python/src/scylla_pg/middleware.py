"""Code around submitting and around handling."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import Submission
    from .task import Task


class Middleware:
    """Override one or both. Each gives a context manager that is entered around the work.

    The one of `handle` is entered where the handler runs: in its thread, or in its asyncio task. It
    sees how the handler ended as the exception that comes out of it: an error, Abort, Snooze, or
    the cause for which the worker stopped it.
    """

    def submit(self, submission: Submission) -> AbstractContextManager[Any]:
        """Around a submission, which it may change."""
        return nullcontext()

    def handle(self, task: Task) -> AbstractContextManager[Any]:
        """Around a handler."""
        return nullcontext()


@contextmanager
def around_handle(middleware: Iterable[Middleware], task: Task) -> Generator[None, None, None]:
    with ExitStack() as stack:
        for one in middleware:
            stack.enter_context(one.handle(task))
        yield


@contextmanager
def around_submit(
    middleware: Iterable[Middleware], submission: Submission
) -> Generator[None, None, None]:
    with ExitStack() as stack:
        for one in middleware:
            stack.enter_context(one.submit(submission))
        yield
