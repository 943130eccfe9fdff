"""Several at once: producers and consumers, a flooded queue beside a quiet one, a mixture."""

from __future__ import annotations

from collections.abc import Iterator

from ..bench import Bench
from ..compare import judge
from ..pgbench import percentile
from ..results import Row
from ..server import BenchError
from . import Special, at_least


def produce_and_consume(bench: Bench, special: Special) -> Iterator[Row]:
    """Eight producers of single tasks, and eight consumers that take up to ten."""
    seconds, server = bench.options.seconds * bench.options.rounds, bench.server
    server.settle()
    define = {"size": 10}
    with bench.background("scylla/poll", 8, seconds=seconds + 1, define=define) as consumers:
        produced = bench.load("scylla/submit-1", 8, seconds=seconds)
        left = int(server.number("select count(*) from scylla.task"))
        consumers.result()
    # what the consumers did not reach while they shared the machine with the producers
    while server.sql("select exists (select from scylla.task)") == "t":
        bench.load("scylla/poll", 8, seconds=1, define=define)
    done, repeated, rate = server.numbers(f"""
        select count(*), count(*) - count(distinct id) + count(*) filter (where tries > 1),
            count(*) filter (where updated < min_created + interval '{seconds} s') / {seconds}::float8
        from scylla.finished, (select min(created) as min_created from scylla.finished) f""")
    if done != produced.transactions or repeated:
        raise BenchError(f"{produced.transactions:,} submitted, {done:,.0f} done, {repeated:,.0f} of them twice")
    p50, p99, longest = server.numbers("""
        select p[1], p[2], p[3] from (
            select percentile_cont('{0.5, 0.99, 1}'::float8[]) within group
                (order by extract(epoch from owned_at - created)::float8 * 1000) as p
            from scylla.finished) f""")
    note = f"submitted to owned: p50 {p50:.1f}, p99 {p99:.1f}, longest {longest:.1f} ms"
    yield at_least(special.row("done", rate, note=note), 6_000)
    yield special.row("submitted", produced.tps)
    share = left / produced.transactions
    row = special.row("left when producers stop", left, "tasks", note=f"{share:.1%} of what was submitted")
    row.target, row.met = "<= 5 %", share <= 0.05
    yield row


def mixed(bench: Bench, special: Special) -> Iterator[Row]:
    """Plain tasks, delayed ones, pairs with a dependency, and runs of schedules, all consumed at once."""
    seconds, server = bench.options.seconds * bench.options.rounds, bench.server
    ours: list[float] = []
    theirs: list[float] = []
    for scripts, rates in (
        (["scylla/submit-1@8", "scylla/submit-delayed@1", "scylla/submit-pair@1"], ours),
        (["scylla/submit-1"], theirs),
    ):
        bench.systems.empty()
        server.settle()
        if rates is ours:
            for number in range(100):
                server.sql(f"select scylla.schedule('mixed-{number}', 'every 1 second', 'bench')")
        with bench.background("scylla/poll", 8, seconds=seconds + 1, define={"size": 10}) as consumers:
            bench.load(scripts, 8, seconds=seconds)
            consumers.result()
        if rates is ours:
            for number in range(100):
                server.sql(f"select scylla.unschedule('mixed-{number}')")
        while server.sql("select exists (select from scylla.task)") == "t":
            bench.load("scylla/poll", 8, seconds=1, define={"size": 10})
        done, repeated = server.numbers("""
            select count(*), count(*) - count(distinct id) + count(*) filter (where tries > 1)
            from scylla.finished where status = 'completed'""")
        if repeated:
            raise BenchError(f"{repeated:.0f} tasks were handed out twice")
        rates.append(done / (seconds + 1))
    yield special.rates("mixed", ours, note="8 plain : 1 delayed : 1 pair with a dependency; 100 schedules a second")
    row = special.rates("plain tasks only", theirs)
    judge(row, ours[0] / theirs[0], None)
    yield row


def flood(bench: Bench, special: Special) -> Iterator[Row]:
    """A quiet queue, 100 times a second, while another has many tasks and many workers that ask for them."""
    number, server = bench.scale(1_000_000, 50_000), bench.server
    seconds = bench.options.seconds * bench.options.rounds
    server.settle()
    alone = quiet(bench, seconds)
    with bench.configured("flood", max_per_second=20):
        bench.submit(number, queue="flood")
        server.settle()
        beside = quiet(bench, seconds)
        with bench.background("scylla/flood-one", 64, seconds=seconds + 4, rate=640) as workers:
            server.sql("select pg_sleep(2)")
            both = quiet(bench, seconds)
            workers.result()
    yield special.row("alone", alone, "ms", note="p99 of submitting, owning and returning, 100 times a second")
    for side, value in ((f"beside {number:,} tasks", beside), ("and beside 64 workers", both)):
        row = special.row(side, value, "ms", note="the ratio is to alone")
        row.ratio, row.target, row.met = value / alone, "<= 2", value <= 2 * alone
        yield row


def quiet(bench: Bench, seconds: int) -> float:
    """The 99th percentile in milliseconds."""
    run = bench.load("scylla/quiet-one", 2, seconds=seconds, rate=100, latencies=True)
    return percentile(run.latencies, 0.99)


def shares(bench: Bench, special: Special) -> Iterator[Row]:
    """A large group beside 999 small ones: what each gets, and when the small ones are done."""
    small, server = bench.scale(1_000, 20), bench.server
    large = 1_000 * small
    server.settle()
    server.sql(f"""
        select count(scylla.submit_many('shares', array_fill('{{}}'::jsonb, array[1000]),
            group_keys => array_fill('large'::text, array[1000]))) from generate_series(1, {large // 1000})""")
    server.sql(f"""
        select count(scylla.submit_many('shares', array_fill('{{}}'::jsonb, array[{small}]),
            group_keys => array_fill('small ' || n, array[{small}]))) from generate_series(1, 999) n""")
    server.sql("create table shares_taken (n serial primary key, group_key text)")
    server.sql(f"""
        do $$ declare ids uuid[]; tokens uuid[]; keys text[]; begin
            for n in 1..{1_001 * small} / 100 loop
                select array_agg(o.id), array_agg(o.token), array_agg(o.group_key) into ids, tokens, keys
                from scylla.own_tasks('bench', 'shares', 100) o;
                insert into shares_taken (group_key) select unnest(keys);
                perform scylla.return_tasks(ids, tokens);
                commit;
            end loop;
        end $$""")
    least, most = server.numbers(f"""
        select min(taken), max(taken) from (
            select count(*) * 1000.0 / {500 * small} as taken from shares_taken
            where n <= {500 * small} group by group_key) t""")
    before, left = server.numbers(f"""
        select count(*) filter (where group_key = 'large'
                and n < (select max(n) from shares_taken where group_key <> 'large')),
            {999 * small} - count(*) filter (where group_key <> 'large')
        from shares_taken""")
    server.sql("drop table shares_taken")
    server.sql("select scylla.cancel_group('shares', 'large')")
    row = special.row("least share", least, "of a round", note=f"most {most:.3f}, when half of the small are done")
    row.target, row.met = "0.95 to 1.05", least >= 0.95 and most <= 1.05
    yield row
    row = special.row("large before the last small", before, "tasks", note=f"{left:.0f} small ones are left")
    row.target, row.met = f"< {2 * small:,}", before < 2 * small and left == 0
    yield row
