"""Submit and run tasks of scylla, the task scheduler inside PostgreSQL."""

from .async_client import AsyncClient
from .calls import Submission, SubmitOptions
from .client import Client
from .errors import (
    Abort,
    Cancelled,
    Error,
    Incompatible,
    LeaseLost,
    Shutdown,
    Snooze,
    Stopped,
    TaskAborted,
    TaskCancelled,
    Timeout,
)
from .middleware import Middleware
from .queue import Queue, TaskFunction
from .task import Task
from .version import VERSION as __version__
from .worker import Worker

__all__ = [
    "Abort",
    "AsyncClient",
    "Cancelled",
    "Client",
    "Error",
    "Incompatible",
    "LeaseLost",
    "Middleware",
    "Queue",
    "Shutdown",
    "Snooze",
    "Stopped",
    "Submission",
    "SubmitOptions",
    "Task",
    "TaskAborted",
    "TaskCancelled",
    "TaskFunction",
    "Timeout",
    "Worker",
    "__version__",
]
