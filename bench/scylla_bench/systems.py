"""The systems that are compared, and how to install, count and empty each of them.

What a system does is a pgbench script of its folder below bench/script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import peers
from .server import REPO, BenchError, Server

REFERENCE = REPO / "bench" / "reference"


SCHEMAS = {"floor": "reference", "pgmq-api": "scylla", "graphile": "graphile_worker"}  # others have their name


@dataclass(frozen=True)
class Ledger:
    """A system's tasks: what must add up before and after a slice."""

    ready: int
    running: int
    done: int | None  # None: the system deletes them
    repeated: int  # handed out, or settled, more than once


@dataclass(frozen=True)
class System:
    """One queue, or the bare tables of the floor."""

    name: str
    install: Callable[[Server], None]
    ledger: str  # SQL: ready, running, done, repeated; "": it has no tasks to be counted
    empty: str  # SQL that deletes all tasks
    release: str = ""  # SQL that ends what a slice still owns
    define: dict[str, str] = field(default_factory=dict)
    peer: bool = False

    @property
    def schema(self) -> str:
        """Where its tables are."""
        return SCHEMAS.get(self.name, self.name)

    def count(self, server: Server, queue: str) -> Ledger:
        """Counts the tasks of the queues whose names begin so."""
        ready, running, done, repeated = server.sql(self.ledger.replace("@QUEUE@", queue)).split("|")
        return Ledger(int(ready), int(running), int(done) if done else None, int(repeated))


def install_scylla(_: Server) -> None:
    """The benchmark's database has it already."""


def from_file(file: Path, replace: dict[str, str] | None = None) -> Callable[[Server], None]:
    """Installs what an SQL file creates."""

    def install(server: Server) -> None:
        text = file.read_text()
        for word, value in (replace or {}).items():
            text = text.replace(word, value)
        server.sql(text)

    return install


KEYS = {"uuid": "default gen_random_uuid()", "bigint": "generated always as identity"}

SCYLLA = System(
    "scylla",
    install_scylla,
    ledger="""
        select (select count(*) from scylla.task where queue like '@QUEUE@%' and pending = 0 and due is null) - held,
            held, done, repeated
        from (select count(*) as held from scylla._leases()) l,
            (select coalesce(sum(number), 0) as done, count(*) filter (where number > 1 or tries > 1) as repeated
             from (select count(*) as number, max(tries) as tries
                   from scylla.finished where queue like '@QUEUE@%' and status <> 'cancelled'
                   group by id) f) f""",
    empty="drop extension scylla cascade; create extension scylla",
    release="select scylla.cancel_tasks(array(select id from scylla._leases()))",
)


def check_indexes(server: Server) -> None:
    """Every index of scylla's tables has an entry for each row that it should, in order."""
    if not server.number("select count(*) from pg_available_extensions where name = 'amcheck'"):
        return
    server.sql(
        "create extension if not exists amcheck",
        """select bt_index_check(c.oid, true)
        from pg_class c join pg_am a on a.oid = c.relam
        where c.relnamespace = 'scylla'::regnamespace and c.relkind = 'i' and a.amname = 'btree'""",
    )


def plain(key: str) -> System:
    """The plain queue: the usual design of a queue in a table."""
    return System(
        "plain",
        from_file(REFERENCE / "plain.sql", {"@KEY@": key, "@VALUE@": KEYS[key]}),
        ledger="""
            select count(*) filter (where status = 'ready'), count(*) filter (where status = 'running'),
                count(*) filter (where status = 'completed'), count(*) filter (where tries > 1)
            from plain.job where queue like '@QUEUE@%'""",
        empty="truncate plain.job",
        release="update plain.job set status = 'cancelled' where status = 'running'",
    )


FLOOR = System(
    "floor",
    from_file(REFERENCE / "floor.sql"),
    ledger="",
    empty="truncate reference.heap; select reference.reload(100000)",
)


def shape(name: str) -> System:
    """Tables of one shape, written with plain statements. `settled` is of the one, `moved` of the other."""
    return System(
        name,
        from_file(REFERENCE / "shapes.sql", {"@SHAPE@": name}),
        ledger=f"""
            select (select count(*) from {name}.live) - s.done, 0, m.done + s.done, s.repeated
            from (select count(*) as done, count(*) - count(distinct id) as repeated from {name}.settled) s,
                (select count(*) as done from {name}.moved) m""",
        empty=f"select {name}.clear()",
    )


PGMQ = System(
    "pgmq",
    peers.install_pgmq,
    ledger="""
        select count(*) filter (where vt <= clock_timestamp()), count(*) filter (where vt > clock_timestamp()),
            null, count(*) filter (where read_ct > 1)
        from pgmq.q_bench""",
    empty="truncate pgmq.q_bench",
    release="delete from pgmq.q_bench where read_ct > 0",
    peer=True,
)

# pgmq's functions as scylla has them, beside pgmq in one database: no function names its own schema.
PGMQ_API = System(
    "pgmq-api",
    install_scylla,
    ledger="""
        select count(t.id) - l.held, l.held, null, count(*) filter (where t.tries > 0)
        from (select count(*) as held from scylla._leases()) l left join scylla.task t on t.queue = 'messages'
        group by l.held""",
    empty="""
        drop schema if exists pgmq_api cascade;
        do $$ begin
            if to_regnamespace('pgmq') is not null then
                alter schema pgmq rename to pgmq_peer;
            end if;
            perform scylla.enable_pgmq_api();
            perform pgmq.create('messages');
            alter schema pgmq rename to pgmq_api;
            if to_regnamespace('pgmq_peer') is not null then
                alter schema pgmq_peer rename to pgmq;
            end if;
        end $$""",
    release="select scylla.cancel_tasks(array(select id from scylla._leases()))",
)

GRAPHILE = System(
    "graphile",
    peers.install_graphile,
    ledger="""
        select count(*) filter (where locked_at is null), count(*) filter (where locked_at is not null),
            null, count(*) filter (where attempts > 1)
        from graphile_worker._private_jobs""",
    empty="truncate graphile_worker._private_jobs",
    release="delete from graphile_worker._private_jobs where locked_at is not null",
    define={"tasks": "{1}"},
    peer=True,
)

PGBOSS = System(
    "pgboss",
    peers.install_pgboss,
    ledger="""
        select count(*) filter (where state = 'created'), count(*) filter (where state = 'active'),
            count(*) filter (where state = 'completed'), count(*) filter (where retry_count > 0)
        from pgboss.job_common""",
    empty="truncate pgboss.job_common cascade",
    release="delete from pgboss.job_common where state = 'active'",
    peer=True,
)

PEERS = [PGMQ.name, GRAPHILE.name, PGBOSS.name]


class Systems:
    """Installs each system when it is asked for. Remembers why one could not be."""

    def __init__(self, server: Server, key: str) -> None:
        self.server = server
        every = (SCYLLA, plain(key), FLOOR, shape("moved"), shape("appended"), PGMQ, PGMQ_API, GRAPHILE, PGBOSS)
        self.known = {system.name: system for system in every}
        self.installed: dict[str, System | BenchError] = {}
        self.used: set[str] = set()

    def get(self, name: str) -> System:
        """The system, installed. Raises the same reason every time when it is a peer that cannot be."""
        if name not in self.installed:
            system = self.known[name]
            self.installed[name] = system
            try:
                system.install(self.server)
                self.server.sql(system.empty)
            except BenchError as reason:
                if not system.peer:
                    raise
                self.installed[name] = reason
        found = self.installed[name]
        if isinstance(found, BenchError):
            raise found
        self.used.add(name)
        return found

    def forget(self, name: str) -> None:
        """A peer's schema is gone: it is installed again when it is asked for."""
        self.installed.pop(name, None)
        self.used.discard(name)

    def empty(self) -> None:
        """Deletes the tasks of those that were used; scylla's first, with what depends on them."""
        for name in sorted(self.used, key=lambda name: name != SCYLLA.name):
            self.server.sql(self.known[name].empty)
