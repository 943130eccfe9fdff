"""The SQL calls as values: a statement, its parameters, and how to read its row.

Both clients and every driver run the same values. Parameters are texts with a cast, and each
statement gives one row, so that nothing depends on how a driver maps uuid, jsonb or arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast
from uuid import UUID

from .codec import encode

T = TypeVar("T")
Interval = timedelta | float | str
"""A length of time: a timedelta, seconds, or a text as PostgreSQL reads it."""


class SubmitOptions(TypedDict, total=False):
    """The arguments of `scylla.submit` besides queue and spec. One that is absent is not sent.

    `lease` is the length of a lease, which SQL calls `timeout`.
    """

    action: str
    priority: int
    id: UUID | str
    key: str
    on_conflict: Literal["error", "ignore", "replace"]
    run_at: datetime | timedelta
    after: Iterable[UUID | str]
    on_failure: Literal["abort", "run"]
    max_tries: int
    retry_interval: Interval
    retry_jitter: Interval
    lease: Interval
    post_result: bool
    group_key: str
    meta: Mapping[str, Any]
    unique_for: Interval


class SubmitManyOptions(TypedDict, total=False):
    """The arguments of `scylla.submit_many` besides queue and specs."""

    action: str
    priority: int
    run_at: datetime | timedelta
    max_tries: int
    retry_interval: Interval
    retry_jitter: Interval
    lease: Interval
    post_result: bool
    ids: Sequence[UUID | str | None]
    keys: Sequence[str | None]
    group_keys: Sequence[str | None]
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One statement. `%s` marks a parameter; there is no other percent sign in it."""

    sql: str
    params: tuple[str | None, ...]
    read: Callable[[Sequence[Any]], T]
    again: Callable[[], T] | None = None
    """The answer, if a repetition finds that the call had worked and only its answer was lost."""
    repeat: bool = True
    """Whether the call may be repeated when its answer was lost with the connection."""


@dataclass
class Submission:
    """What is about to be submitted. Middleware may change `options`, such as `meta`."""

    queue: str
    specs: list[Any]
    options: dict[str, Any] = field(default_factory=lambda: cast("dict[str, Any]", {}))
    many: bool = False

    @property
    def action(self) -> str:
        return self.options.get("action") or ""


class SubmittedTask(TypedDict):
    """A row of `submit_tasks`."""

    id: str | None
    outcome: Literal["inserted", "duplicate", "invalid"]
    error: str | None


# ---- parameters ----


def _text(value: Any) -> str:
    return str(value)


def _boolean(value: Any) -> str:
    return "true" if value else "false"


def interval(value: Interval) -> str:
    if isinstance(value, timedelta):
        # a day of PostgreSQL may have 23 hours
        return f"{value // timedelta(microseconds=1)} microseconds"
    return value if isinstance(value, str) else f"{value:.6f} seconds"


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError("run_at needs a time zone: datetime.now(timezone.utc), for example")
    return value.isoformat()


def array(items: Iterable[Any]) -> str:
    """A PostgreSQL array literal."""
    return "{" + ",".join("NULL" if item is None else _quoted(str(item)) for item in items) + "}"


def _quoted(item: str) -> str:
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


_TYPES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "action": ("text", _text),
    "priority": ("bigint", _text),
    "id": ("uuid", _text),
    "key": ("text", _text),
    "on_conflict": ("text", _text),
    "after": ("uuid[]", array),
    "on_failure": ("text", _text),
    "max_tries": ("int", _text),
    "retry_interval": ("interval", interval),
    "retry_jitter": ("interval", interval),
    "lease": ("interval", interval),
    "post_result": ("boolean", _boolean),
    "group_key": ("text", _text),
    "meta": ("jsonb", encode),
    "unique_for": ("interval", interval),
    "ids": ("uuid[]", array),
    "keys": ("text[]", array),
    "group_keys": ("text[]", array),
}

_SQL_NAMES = {"lease": "timeout"}


def _arguments(options: Mapping[str, Any]) -> tuple[str, list[str]]:
    """`, name => %s::text::type` for each option that is given, and the parameters."""
    sql, params = "", list[str]()
    for name, value in options.items():
        if value is None:
            continue
        if name == "run_at":
            if isinstance(value, timedelta):
                sql += ", run_at => clock_timestamp() + %s::text::interval"
                params.append(interval(value))
            else:
                sql += ", run_at => %s::text::timestamptz"
                params.append(_moment(value))
        elif name in _TYPES:
            kind, convert = _TYPES[name]
            sql += f", {_SQL_NAMES.get(name, name)} => %s::text::{kind}"
            params.append(convert(value))
        else:
            raise TypeError(f"submit has no argument {name!r}")
    return sql, params


# ---- results ----


def _scalar(row: Sequence[Any]) -> Any:
    return row[0]


def _boolean_row(row: Sequence[Any]) -> bool:
    return bool(row[0])


def _uuid(row: Sequence[Any]) -> UUID | None:
    return None if row[0] is None else UUID(row[0])


def _json(row: Sequence[Any]) -> Any:
    return None if row[0] is None else json.loads(row[0])


def _uuids(row: Sequence[Any]) -> list[UUID]:
    return [UUID(id) for id in _json(row)]


# ---- the calls ----


def submit(submission: Submission) -> Call[UUID]:
    """One task. The id is None only where `ignore` met a task that the caller may not see."""
    sql, params = _arguments(submission.options)
    spec = encode(submission.specs[0])
    id = submission.options.get("id")
    return Call(
        f"select scylla.submit(%s::text, %s::text::jsonb{sql})::text",
        (submission.queue, spec, *params),
        cast("Callable[[Sequence[Any]], UUID]", _uuid),
        (lambda: UUID(str(id))) if id is not None else None,
    )


def submit_many(submission: Submission) -> Call[list[UUID]]:
    sql, params = _arguments(submission.options)
    specs = array(map(encode, submission.specs))
    ids = submission.options.get("ids")
    known = ids is not None and None not in ids
    return Call(
        f"select to_jsonb(scylla.submit_many(%s::text, %s::text::jsonb[]{sql}))::text",
        (submission.queue, specs, *params),
        _uuids,
        (lambda: [UUID(str(id)) for id in ids or ()]) if known else None,
    )


def submit_tasks(tasks: Iterable[Mapping[str, Any]], atomic: bool) -> Call[list[SubmittedTask]]:
    elements = [{_SQL_NAMES.get(name, name): task[name] for name in task} for task in tasks]
    for element in elements:
        for name, value in element.items():
            if name in ("retry_interval", "retry_jitter", "timeout", "unique_for"):
                element[name] = None if value is None else interval(value)
            elif isinstance(value, datetime):
                element[name] = _moment(value)
            elif name == "after" and value is not None:
                element[name] = [str(id) for id in value]
    return Call(
        "select coalesce(jsonb_agg(task order by place), '[]')::text from "
        "scylla.submit_tasks(%s::text::jsonb, %s::text::boolean) "
        "with ordinality as task (id, outcome, error, place)",
        (encode(elements), _boolean(atomic)),
        _submitted,
        repeat=False,
    )


def _submitted(row: Sequence[Any]) -> list[SubmittedTask]:
    return [{"id": t["id"], "outcome": t["outcome"], "error": t["error"]} for t in _json(row)]


def wait(id: UUID | str, timeout: Interval) -> Call[tuple[str | None, Any]]:
    """A procedure: it cannot run in a transaction, and psycopg reads its jsonb."""

    def read(row: Sequence[Any]) -> tuple[str | None, Any]:
        return row[0], row[1]

    return Call(
        "call scylla.wait_for_task(%s::text::uuid, timeout => %s::text::interval, "
        "status => null, result => null)",
        (str(id), interval(timeout)),
        read,
    )


def task(id: UUID | str) -> Call[dict[str, Any]]:
    return Call("select scylla.task(%s::text::uuid)::text", (str(id),), _json)


def why(id: UUID | str) -> Call[str]:
    return Call("select scylla.why(%s::text::uuid)", (str(id),), _scalar)


def about() -> Call[dict[str, Any]]:
    return Call("select scylla.about()::text", (), _json)


def task_id(queue: str, key: str) -> Call[UUID | None]:
    return Call("select scylla.task_id(%s::text, %s::text)::text", (queue, key), _uuid)


def cancel(id: UUID | str) -> Call[bool]:
    return Call("select scylla.cancel(%s::text::uuid)", (str(id),), _boolean_row)


def cancel_many(ids: Iterable[UUID | str]) -> Call[list[bool | None]]:
    sql = "select to_jsonb(scylla.cancel_tasks(%s::text::uuid[]))::text"
    return Call(sql, (array(ids),), _json)


def cancel_group(queue: str, group_key: str) -> Call[int]:
    return Call("select scylla.cancel_group(%s::text, %s::text)", (queue, group_key), _scalar)


def delay(id: UUID | str, until: datetime) -> Call[bool]:
    sql = "select scylla.delay(%s::text::uuid, %s::text::timestamptz)"
    return Call(sql, (str(id), _moment(until)), _boolean_row)


def delete(ids: Iterable[UUID | str]) -> Call[int]:
    return Call("select scylla.delete_tasks(%s::text::uuid[])", (array(ids),), _scalar)


def resubmit(ids: Iterable[UUID | str]) -> Call[list[UUID | None]]:
    def read(row: Sequence[Any]) -> list[UUID | None]:
        return [None if id is None else UUID(id) for id in _json(row)]

    sql = "select to_jsonb(scylla.resubmit(%s::text::uuid[]))::text"
    return Call(sql, (array(ids),), read, repeat=False)


def drain_worker(worker: str) -> Call[bool]:
    return Call("select scylla.drain_worker(%s::text)", (worker,), _boolean_row)
