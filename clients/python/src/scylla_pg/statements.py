"""The statements of a worker. Parameters are texts with a cast, as in `calls`."""

from __future__ import annotations

from collections.abc import Sequence

from .calls import array
from .outcome import Outcome


def _line(sql: str) -> str:
    """On one line, as logs and views of the server show it best."""
    return " ".join(sql.split())


# What Run takes apart.
_ROW = """
    o.id::text, o.token::text, o.{queue} as queue, o.action, o.spec::text, o.priority, o.key,
    o.tries, o.num_failures, o.group_key, date_part('epoch', o.created), o.max_tries,
    o.meta::text, date_part('epoch', o.deadline),
    date_part('epoch', clock_timestamp())"""

_RETURN = """scylla.return_many(%s::text::uuid[], %s::text::uuid[], %s::text::text[],
    %s::text::jsonb[], %s::text::jsonb[], %s::text::timestamptz[])"""

HEARTBEAT = _line("""
select h.state, date_part('epoch', h.deadline),
    date_part('epoch', clock_timestamp())
from scylla.heartbeat(%s::text, %s::text::uuid[], %s::text::uuid[],
    progress => %s::text::float8[]) as h""")

WAIT = _line("""call scylla.wait_for_event(%s::text, %s::text::text[], %s::text::interval,
    %s::text::text[], event => null, queue => null)""")

ABOUT = "select scylla.about()::text"
# what became of a task, and which worker owned it last, when
STATUS = _line(
    """
select t ->> 'status', last.h ->> 'worker',
    date_part('epoch', (last.h ->> 'time')::timestamptz)
from scylla.task(%s::text::uuid) as t left join lateral (
    select h from jsonb_array_elements(t -> 'history') with ordinality as e (h, place)
    where h ->> '_typ' = 'TaskAssignment' order by place desc limit 1) as last on true"""
)

FEATURES = {"return_many", "yield_run_at", "heartbeat", "own_any", "wait_for_event"}
PROTOCOL = 1


class Exchange:
    """Returns what has ended and owns what is free, in one statement where there is both."""

    def __init__(
        self, worker: str, queues: Sequence[str], actions: Sequence[str], lease: str | None
    ) -> None:
        several = len(queues) > 1
        own = f"scylla.{'own_any' if several else 'own_tasks'}"
        own += f"(%s::text, %s::text{'::text[]' if several else ''}, %s::text::int"
        own += ", %s::text::text[], %s::text::interval)"
        # one queue needs no column
        row = _ROW.replace("o.{queue}", "o.queue" if several else "%s::text")
        self.owning = _line(f"select null,{row} from {own} as o")
        # the statuses come once, not with each row
        self.both = _line(
            f"select case when o.ordinality is null or o.ordinality = 1 "
            f"then array_to_string(r, ',', '-') end,{row} "
            f"from {_RETURN} as r left join lateral {own} with ordinality as o on true"
        )
        self.returning = _line(f"select array_to_string({_RETURN}, ',', '-')")
        self._queue = () if several else (queues[0],)
        self._head = (worker, array(queues) if several else queues[0])
        self._tail = (array(actions), lease)

    def own(self, most: int) -> tuple[str | None, ...]:
        return (*self._queue, *self._head, str(most), *self._tail)

    def return_and_own(self, returned: tuple[str | None, ...], most: int) -> tuple[str | None, ...]:
        return (*self._queue, *returned, *self._head, str(most), *self._tail)


def return_parameters(
    ids: list[str], tokens: list[str], outcomes: list[Outcome]
) -> tuple[str | None, ...]:
    """The six arguments of return_many. An array without an element is null."""

    def texts(items: list[str | None]) -> str | None:
        return array(items) if any(item is not None for item in items) else None

    return (
        "{" + ",".join(ids) + "}",
        "{" + ",".join(tokens) + "}",
        "{" + ",".join([outcome.kind for outcome in outcomes]) + "}",
        texts([outcome.result for outcome in outcomes]),
        texts([outcome.error for outcome in outcomes]),
        texts([outcome.run_at for outcome in outcomes]),
    )
