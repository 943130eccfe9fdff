"""Dependencies: many before one, a chain, a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..bench import Bench
from ..compare import judge, ratio_of
from ..results import Row
from ..server import BenchError
from . import Special, at_least

FAN = """with new as materialized (
    select scylla.submit_many('fan', array_fill('{{}}'::jsonb, array[{number}])) as ids
)
select scylla.submit('follower', after => ids) from new"""


def fanin(bench: Bench, special: Special) -> Iterator[Row]:
    """Tasks returned by 100, and one dependent of all of them. It must be ready exactly once."""
    number, clients, size = bench.scale(50_000, 8_000), 16, 100
    rates = []
    for at in range(bench.options.rounds):
        bench.progress.step(f"round {at + 1}")
        bench.server.sql(FAN.format(number=number))
        bench.server.settle()
        transactions = number // size // clients + 1
        run = bench.load("scylla/fan", clients, transactions=transactions, define={"size": size, "queue": "fan"})
        rates.append(run.tps * number / transactions / clients)
        # the scheduler counts down right after the last commit if two commits met at the end
        bench.server.sql("select pg_sleep(1)")
        # returned as well: a lease that ran out would hand out this one again in the next round
        returned = bench.server.sql("""
            select count(scylla.return_task(o.id, o.token)) from scylla.own_tasks('bench', 'follower', 10) o""")
        if returned != "1":
            raise BenchError(f"there are {returned} dependents, not one")
        left = bench.server.sql("select count(*) from scylla.task")
        if left != "0":
            raise BenchError(f"{left} tasks were not done")
    yield at_least(special.rates("scylla", rates, note=f"{number:,} tasks and one dependent of all"), 10_000)


def chain(bench: Bench, special: Special) -> Iterator[Row]:
    """The links of a chain, one client."""
    number, rates = bench.scale(10_000, 1_000), []
    for at in range(bench.options.rounds):
        bench.progress.step(f"round {at + 1}")
        queue = f"chain{at}"
        after = f"""case when i = 1 then '{{}}'
            else jsonb_build_object('after', jsonb_build_array(md5('{queue}' || i - 1)::uuid)) end"""
        bench.server.sql(f"select count(*) from scylla.submit_tasks({documents(queue, number, after)})")
        bench.server.settle()
        rates.append(bench.load("scylla/work-1", 1, transactions=number, define={"queue": queue}).tps)
        left = bench.server.sql(f"select count(*) from scylla.task where queue = '{queue}'")
        if left != "0":
            raise BenchError(f"{left} links of the chain were not done")
    yield at_least(special.rates("scylla", rates, note=f"a chain of {number:,}"), 1_000)


def graph(bench: Bench, special: Special) -> Iterator[Row]:
    """A batch with three edges for each task, against one without edges."""
    number = bench.scale(100_000, 10_000)
    edges, flat = [], []
    for at in range(bench.options.rounds):
        bench.progress.step(f"round {at + 1}")
        queue = f"graph{at}"
        links = ", ".join(f"md5('{queue}' || {link})::uuid" for link in ("i - 1", "i / 2", "i / 3"))
        after = f"case when i <= 3 then '{{}}' else jsonb_build_object('after', jsonb_build_array({links})) end"
        edges.append(submit_timed(bench, queue, number, after))
        flat.append(submit_timed(bench, f"flat{at}", number, "'{}'::jsonb"))
    yield special.rates("with edges", edges, note=f"{number:,} tasks with {3 * number:,} edges in one batch")
    row = special.rates("without edges", flat)
    judge(row, ratio_of(edges, flat), 0.33)
    yield row


def documents(queue: str, number: int, members: str) -> str:
    """SQL for an array of tasks; `members` is SQL that adds to each, of its number i."""
    return f"""(select jsonb_agg(jsonb_build_object('queue', '{queue}', 'id', md5('{queue}' || i)::uuid) || {members})
        from generate_series(1, {number}) i)"""


def submit_timed(bench: Bench, queue: str, number: int, members: str) -> float:
    """Tasks per second of one batch. The array is made before, and the tasks are deleted after."""
    bench.server.settle()
    output = bench.server.sql(
        f"create temp table batch as select {documents(queue, number, members)} as tasks;\n\\timing on\n"
        "select count(*) from batch, scylla.submit_tasks(batch.tasks);\n\\timing off\n",
        "select 1",
    )
    took = re.search(r"^Time: ([0-9.]+) ms", output, re.MULTILINE)
    if not took or not output.startswith(str(number)):
        raise BenchError(f"the batch was not submitted: {output[:200]}")
    bench.server.sql(f"select scylla.delete_tasks(array(select id from scylla.task where queue = '{queue}'))")
    return number * 1000 / float(took[1])
