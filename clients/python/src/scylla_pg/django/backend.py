# pyright: basic
"""The backend for django-tasks, and for django.tasks of Django 6."""

from __future__ import annotations

import importlib
import inspect
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django import VERSION
from django.conf import settings
from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.module_loading import import_string

from .. import calls, drivers
from ..calls import Call, Submission
from ..capture import captured
from ..errors import refusals
from ..middleware import Middleware, around_submit
from ..queue import Queue
from ..task import Task

_LIBRARY = (
    "django.tasks"
    if VERSION[0] >= 6 and "django_tasks" not in settings.INSTALLED_APPS
    else "django_tasks"
)
_base: Any = importlib.import_module(f"{_LIBRARY}.base")
_exceptions: Any = importlib.import_module(f"{_LIBRARY}.exceptions")
_signals: Any = importlib.import_module(f"{_LIBRARY}.signals")
_backends: Any = importlib.import_module(f"{_LIBRARY}.backends.base")

ACTION = "django.task"
_RAISED = 100
"""Django's priorities begin at -100, those of scylla at 0."""


class ScyllaBackend(_backends.BaseTaskBackend):
    """Submits with Django's own connection, so in the transaction that is open there.

    OPTIONS: database (an alias of DATABASES, "default"), max_tries, retry_interval, retry_jitter,
    lease (as of submit), middleware (paths of scylla_pg.Middleware classes).
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        options = dict(self.options)
        self.database = options.pop("database", "default")
        self.middleware = tuple(import_string(path)() for path in options.pop("middleware", ()))
        self._submit_options = options

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        result = _base.TaskResult(
            task=task,
            id="",
            status=_base.TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        spec = {"task": task.module_path, "args": result.args, "kwargs": result.kwargs}
        options = {
            "action": ACTION,
            "priority": task.priority + _RAISED,
            "run_at": task.run_after,
            "post_result": True,
            **self._submit_options,
        }
        submission = Submission(task.queue_name, [spec], options)
        with around_submit(self.middleware, submission):
            if (recorder := captured()) is not None:
                id = recorder.add(submission)[0]
            else:
                with refusals:
                    id = drivers.run(connections[self.database], calls.submit(submission))
        object.__setattr__(result, "id", str(id))
        object.__setattr__(result, "enqueued_at", timezone.now())
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        try:
            id = uuid.UUID(str(result_id))
        except ValueError:
            raise _exceptions.TaskResultDoesNotExist(result_id) from None
        # a view: scylla.task() would raise, and end a transaction of the caller
        entry = drivers.run(
            connections[self.database],
            Call(
                "select to_jsonb(t)::text from scylla.tasks as t where id = %s::text::uuid "
                "union all select null limit 1",
                (str(id),),
                lambda row: json.loads(row[0]) if row[0] else None,
            ),
        )
        if entry is None or entry["action"] != ACTION:
            raise _exceptions.TaskResultDoesNotExist(result_id)
        return self._result(entry)

    def _result(self, entry: dict[str, Any]) -> Any:
        spec = entry["spec"]
        task = import_string(spec["task"]).using(
            priority=entry["priority"] - _RAISED,
            queue_name=entry["queue"],
            run_after=_moment(entry["run_at"]),
            backend=self.alias,
        )
        begun = [one for one in entry["history"] or () if one["_typ"] == "TaskAssignment"]
        settled = entry["status"] in ("completed", "aborted", "cancelled")
        result = _base.TaskResult(
            task=task,
            id=str(entry["id"]),
            status=_STATUS[entry["status"]],
            enqueued_at=_moment(entry["created"]),
            started_at=_moment(begun[0]["time"]) if begun else None,
            last_attempted_at=_moment(begun[-1]["time"]) if begun else None,
            finished_at=_moment(entry["updated"]) if settled else None,
            args=spec["args"],
            kwargs=spec["kwargs"],
            backend=self.alias,
            errors=[
                _base.TaskError(
                    exception_class_path=error["args"]["type"],
                    traceback=error["args"]["traceback"],
                )
                for error in entry["errors"] or ()
                if "traceback" in error.get("args", {})
            ],
            worker_ids=[one["worker"] for one in begun],
        )
        object.__setattr__(result, "_return_value", entry["result"])
        return result

    # ---- for the worker ----

    def queue(self, name: str) -> Queue:
        """A queue whose handler runs Django's tasks."""
        made = Queue(name)

        @made.task(action=ACTION)
        def run(task: Task) -> Any:
            return self._perform(task)

        return made

    def _perform(self, task: Task) -> Any:
        spec = task.spec
        result = self.get_result(str(task.id))
        object.__setattr__(result, "status", _base.TaskResultStatus.RUNNING)
        if len(result.worker_ids) < task.tries:  # this try is not in the table yet
            now = timezone.now()
            result.worker_ids.append("")
            object.__setattr__(result, "started_at", result.started_at or now)
            object.__setattr__(result, "last_attempted_at", now)
        _signals.task_started.send(type(self), task_result=result)
        context = (_base.TaskContext(task_result=result),) if result.task.takes_context else ()
        try:
            value = result.task.call(*context, *spec["args"], **spec["kwargs"])
        except Exception:
            if task.is_last_try:
                self._finished(result, _base.TaskResultStatus.FAILED)
            raise
        object.__setattr__(result, "_return_value", value)
        self._finished(result, _base.TaskResultStatus.SUCCESSFUL)
        return value

    def _finished(self, result: Any, status: Any) -> None:
        object.__setattr__(result, "status", status)
        object.__setattr__(result, "finished_at", timezone.now())
        _signals.task_finished.send(type(self), task_result=result)


class CloseConnections(Middleware):
    """Django's connections are those of a thread: closes old and broken ones around a task."""

    @contextmanager
    def handle(self, task: Task) -> Iterator[None]:
        close_old_connections()
        try:
            yield
        finally:
            close_old_connections()


def conninfo(database: str) -> dict[str, Any]:
    """The connection parameters of one of DATABASES, for a worker."""
    known = connections[database].get_connection_params()
    for name in ("cursor_factory", "context", "server_side_binding", "pool", "prepare_threshold"):
        known.pop(name, None)
    return {name: value for name, value in known.items() if not inspect.isclass(value)}


_STATUS = {
    "waiting": _base.TaskResultStatus.READY,
    "ready": _base.TaskResultStatus.READY,
    "running": _base.TaskResultStatus.RUNNING,
    "completed": _base.TaskResultStatus.SUCCESSFUL,
    "aborted": _base.TaskResultStatus.FAILED,
    "cancelled": _base.TaskResultStatus.FAILED,
}


def _moment(text: str | None) -> datetime | None:
    # datetime.fromisoformat of Python 3.10 reads 3 or 6 digits of a second only
    return None if text is None else parse_datetime(text)
