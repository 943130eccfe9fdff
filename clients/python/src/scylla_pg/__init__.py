"""Submit and run tasks of scylla, the task scheduler inside PostgreSQL."""

from .async_client import AsyncClient
from .calls import Interval, Submission, SubmitManyOptions, SubmitOptions, SubmittedTask
from .client import Client
from .connect import Conninfo
from .errors import (
    Abort,
    Cancelled,
    DatabaseError,
    DuplicateError,
    Error,
    IncompatibleError,
    LeaseLost,
    NotFoundError,
    NotPermittedError,
    QueueFullError,
    Shutdown,
    Snooze,
    Stopped,
    TaskAbortedError,
    TaskCancelledError,
    TimeLimitExceeded,
)
from .middleware import Middleware
from .queue import Queue, TaskFunction
from .task import Task
from .version import VERSION as __version__
from .worker import Worker, run_all

__all__ = [
    "Abort",
    "AsyncClient",
    "Cancelled",
    "Client",
    "Conninfo",
    "DatabaseError",
    "DuplicateError",
    "Error",
    "IncompatibleError",
    "Interval",
    "LeaseLost",
    "Middleware",
    "NotFoundError",
    "NotPermittedError",
    "Queue",
    "QueueFullError",
    "Shutdown",
    "Snooze",
    "Stopped",
    "Submission",
    "SubmitManyOptions",
    "SubmitOptions",
    "SubmittedTask",
    "Task",
    "TaskAbortedError",
    "TaskCancelledError",
    "TaskFunction",
    "TimeLimitExceeded",
    "Worker",
    "__version__",
    "run_all",
]
