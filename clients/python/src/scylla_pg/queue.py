"""Queues, and functions that are tasks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)
from uuid import UUID

from . import calls, drivers
from .async_client import AsyncClient
from .calls import Submission, SubmitOptions
from .capture import captured
from .client import Client
from .codec import decode
from .errors import refusals
from .middleware import Middleware, around_submit
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[Concatenate[Task, P], R], /) -> TaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...


class Queue:
    """A queue, with the functions that handle its tasks. It connects to nothing.

    `client` is used by `submit` of its functions when they get no `conn`.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client | AsyncClient | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.name = name
        self.client = client
        self.middleware = tuple(middleware)
        self.functions: dict[str, TaskFunction[Any, Any]] = {}

    @overload
    def task(self, function: Callable[Concatenate[Task, P], R], /) -> TaskFunction[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        time_limit: float | None = None,
        interrupt: bool = True,
        **options: Unpack[SubmitOptions],
    ) -> _Decorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        time_limit: float | None = None,
        interrupt: bool = True,
        **options: Any,
    ) -> Any:
        """Makes a function a task of this queue.

        Its arguments are the spec. A first parameter that is annotated with Task, or named `task`,
        gets the task itself. The action is the function's name unless told. `async def` runs on the
        worker's event loop, `def` in a thread.

        time_limit: seconds after which the handler is stopped with TimeLimitExceeded.
        interrupt: whether the cause is raised inside of a running thread; if not, only
            `task.check()` and `task.sleep()` raise it.
        options: what `submit` uses unless told otherwise, such as priority or max_tries.
        """

        def decorate(function: Callable[..., Any]) -> TaskFunction[Any, Any]:
            made = TaskFunction[Any, Any](self, function, options, time_limit, interrupt)
            if made.action in self.functions:
                raise ValueError(f"queue {self.name!r} has a handler for action {made.action!r}")
            self.functions[made.action] = made
            return made

        return decorate if function is None else decorate(function)


class TaskFunction(Generic[P, R]):
    """A function that can be called, submitted, and run by a worker."""

    def __init__(
        self,
        queue: Queue,
        function: Callable[..., R],
        options: dict[str, Any],
        time_limit: float | None = None,
        interrupt: bool = True,
    ) -> None:
        self.queue = queue
        self.function = function
        self.options: dict[str, Any] = {"action": function.__name__, **options}
        self.action: str = self.options["action"]
        self.time_limit = time_limit
        self.interrupt = interrupt
        self.is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        self.takes_task = bool(parameters) and _is_task(parameters[0])
        self._signature = signature.replace(parameters=parameters[self.takes_task :])
        self._extra = None
        for parameter in self._signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(
                    f"{self.__name__}: a spec is an object: parameter {parameter.name} needs a name"
                )
            if parameter.name == "conn":
                raise TypeError(f"{self.__name__}: submit has an argument conn of its own")
            if parameter.kind is parameter.VAR_KEYWORD:
                self._extra = parameter.name
        self._hints: dict[str, Any] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function here, without a queue. One that takes a task needs it first."""
        return self.function(*args, **kwargs)

    # ---- submitting ----

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The spec of a task with these arguments. TypeError: the function does not take them."""
        arguments = dict(self._signature.bind(*args, **kwargs).arguments)
        if self._extra is not None:
            arguments.update(arguments.pop(self._extra, {}))
        return arguments

    @overload
    def submit(self, *args: P.args, **kwargs: P.kwargs) -> UUID: ...
    @overload
    def submit(self, *args: Any, conn: Any, **kwargs: Any) -> UUID: ...
    def submit(self, *args: Any, conn: Any = None, **kwargs: Any) -> UUID:
        """Submits a task with these arguments: in the transaction of `conn`, else by the client."""
        return self.using(conn).submit(*args, **kwargs)

    @overload
    async def submit_async(self, *args: P.args, **kwargs: P.kwargs) -> UUID: ...
    @overload
    async def submit_async(self, *args: Any, conn: Any, **kwargs: Any) -> UUID: ...
    async def submit_async(self, *args: Any, conn: Any = None, **kwargs: Any) -> UUID:
        """As `submit`, for an asynchronous connection or client."""
        return await self.using(conn).submit_async(*args, **kwargs)

    def using(
        self, conn: Any = None, *, queue: str | None = None, **options: Unpack[SubmitOptions]
    ) -> BoundTask[P, R]:
        """With a connection and options of submit: `f.using(conn, key="k").submit(…)`."""
        return BoundTask(self, conn, queue or self.queue.name, {**self.options, **options})

    # ---- for the worker ----

    def bind(self, task: Task) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for a task, as the annotations want them."""
        first = (task,) if self.takes_task else ()
        if not self._signature.parameters:
            return first, {}
        spec = task.spec
        if not isinstance(spec, dict):
            raise TypeError(
                f"the spec is {type(spec).__name__}, but {self.__name__} takes arguments"
            )
        members = cast("dict[str, Any]", spec)
        self._signature.bind(**members)  # a clear TypeError
        hints = self._hints
        if hints is None:
            hints = self._hints = _hints(self.function)
        return first, {
            name: decode(value, hints[name]) if name in hints else value
            for name, value in members.items()
        }

    def __repr__(self) -> str:
        return f"<task {self.queue.name}/{self.action}>"


class BoundTask(Generic[P, R]):
    """A task function with a connection and options."""

    def __init__(
        self, function: TaskFunction[P, R], conn: Any, queue: str, options: dict[str, Any]
    ) -> None:
        self._function = function
        self._conn = conn
        self._queue = queue
        self._options = options

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> UUID:
        submission = self._submission(self._function.spec(*args, **kwargs))
        client = self._function.queue.client
        with around_submit(self._function.queue.middleware, submission):
            if isinstance(client, Client):
                return client.send(submission, self._conn)
            with around_submit(client.middleware if client else (), submission):
                if (recorder := captured()) is not None:
                    return recorder.add(submission)[0]
                if self._conn is None:
                    raise TypeError(self._unconnected("Client"))
                with refusals:
                    return drivers.run(self._conn, calls.submit(submission))

    async def submit_async(self, *args: P.args, **kwargs: P.kwargs) -> UUID:
        submission = self._submission(self._function.spec(*args, **kwargs))
        client = self._function.queue.client
        with around_submit(self._function.queue.middleware, submission):
            if isinstance(client, AsyncClient):
                return await client.send(submission, self._conn)
            with around_submit(client.middleware if client else (), submission):
                if (recorder := captured()) is not None:
                    return recorder.add(submission)[0]
                if self._conn is None:
                    raise TypeError(self._unconnected("AsyncClient"))
                with refusals:
                    return await drivers.run_async(self._conn, calls.submit(submission))

    def _submission(self, spec: dict[str, Any]) -> Submission:
        return Submission(self._queue, [spec], dict(self._options))

    def _unconnected(self, client: str) -> str:
        name = self._function.queue.name
        return (
            f"give conn=..., or make the queue with a client: Queue({name!r}, client={client}(...))"
        )


def _is_task(parameter: inspect.Parameter) -> bool:
    annotation: Any = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "task"
    if isinstance(annotation, str):
        return annotation.split(".")[-1] == "Task"
    return annotation is Task


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # imported for type checkers only
        return {}
