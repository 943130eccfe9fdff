"""What operators do: pages of a list, and bulk calls with a filter."""

from __future__ import annotations

from collections.abc import Iterator

from ..bench import Bench
from ..results import Row
from . import Special, at_most

AT_ONCE = 10_000

PAGES = {
    "a queue": '{"queue": "bench"}',
    "a queue, ready": '{"queue": "bench", "status": "ready"}',
    "a queue, cancelled": '{"queue": "bench", "status": "cancelled"}',
    "all queues": "{}",
    "all queues, cancelled": '{"status": "cancelled"}',
}


def fill(bench: Bench, tasks: int) -> None:
    """Submits so many tasks to the queue bench, and some to two others."""
    for done in range(0, tasks, 100 * AT_ONCE):
        bench.progress.step(f"{done:,} of {tasks:,} tasks are there")
        calls = (min(tasks - done, 100 * AT_ONCE) + AT_ONCE - 1) // AT_ONCE
        bench.server.sql(f"""
            select count(cardinality(scylla.submit_many('bench',
                array_fill('{{"to": "max@example.com"}}'::jsonb, array[{AT_ONCE}]))))
            from generate_series(1, {calls})""")
    bench.server.sql("select scylla.submit('few' || n % 2) from generate_series(1, 100) n")


def pages(bench: Bench, special: Special) -> Iterator[Row]:
    """A page of 100, the first and one in the middle, of live and settled tasks, half of each."""
    tasks, server = bench.scale(10_000_000, 100_000), bench.server
    fill(bench, tasks)
    bench.progress.step("half of them are cancelled")
    for _ in range(0, tasks // 2, 100 * AT_ONCE):
        server.sql(f"""select scylla.cancel_matching('{{"queue": "bench"}}', {min(tasks // 2, 100 * AT_ONCE)})""")
    server.settle()
    for side, filter_ in PAGES.items():
        table = "finished" if "cancelled" in side else "task"
        *_, answer = server.sql(
            "create temporary table took (ms float8)",
            f"""do $$
                declare
                    place uuid;
                    begun timestamptz;
                begin
                    for n in 1..200 loop
                        begun := clock_timestamp();
                        perform from scylla.list_tasks('{filter_}', place);
                        insert into took select extract(epoch from clock_timestamp() - begun) * 1000;
                        if n % 10 = 0 then
                            select id into place from scylla.{table} tablesample system (0.1)
                            where queue = 'bench' limit 1;
                        end if;
                    end loop;
                end $$""",
            "select percentile_cont('{0.5, 0.99}'::float8[]) within group (order by ms) from took",
        ).splitlines()
        p50, p99 = (float(number) for number in answer.strip("{}").split(","))
        note = f"p99 {p99:.1f} ms, of {tasks:,} tasks"
        yield at_most(special.row(side, p50, "ms", note=note), 10)


def bulk(bench: Bench, special: Special) -> Iterator[Row]:
    """Cancels, resubmits and deletes so many tasks, each with one call."""
    tasks, server = bench.scale(100_000, 10_000), bench.server
    for what in ("cancel", "resubmit", "delete"):
        if what == "cancel":
            fill(bench, tasks)
        server.settle()
        filter_ = '{"queue": "bench", "status": "cancelled"}' if what == "delete" else '{"queue": "bench"}'
        *_, answer = server.sql(
            "create temporary table took (begun timestamptz)",
            "insert into took values (clock_timestamp())",
            f"""select scylla.{what}_matching('{filter_}') from (select 1) one""",
            "select extract(epoch from clock_timestamp() - begun) from took",
        ).splitlines()
        row = special.row(f"{what}_matching", float(answer), "s", note=f"{tasks:,} tasks in one call")
        yield at_most(row, 5) if what == "cancel" else row
