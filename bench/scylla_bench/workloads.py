"""The table of workloads: what is measured, against what, and what must be reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from .bench import Bench
from .compare import BEST_PEER, Compare, Side, Target
from .results import Row
from .special import (
    Special,
    binary,
    delays,
    dependencies,
    leases,
    moving,
    operating,
    queues,
    schedules,
    storage,
    waking,
)
from .special.servers import breaking, endurance, lock, router
from .special.workers import peers, rust


class Workload(Protocol):
    """What a row of the table below can do."""

    @property
    def name(self) -> str:
        """Its name, for --only."""

    @property
    def family(self) -> str:
        """Those that share a plot."""

    @property
    def what(self) -> str:
        """What it measures, in a line."""

    def run(self, bench: Bench) -> Iterator[Row]:
        """Measures it."""


EVERYONE = ("scylla", "floor", "plain", "pgmq", "graphile", "pgboss")
QUEUES = ("scylla", "plain", "pgmq", "graphile", "pgboss")


def sides(systems: tuple[str, ...], script: str, size: int, clients: int) -> tuple[Side, ...]:
    """The same load on each system."""
    return tuple(Side(system, script, size=size, clients=clients) for system in systems)


def work(size: int, clients: int, *targets: Target) -> Compare:
    """Own and return in two statements, on every system."""
    script = "work-1" if size == 1 else "work-many"
    what = f"own and return {size:,} in two statements, {clients} clients"
    return Compare(f"work-{size}", "work", what, sides(EVERYONE, script, size, clients), targets)


def messages(name: str, script: str, size: int, clients: int, asynchronous: bool = False) -> Compare:
    """The same statement of a client of pgmq: against the schema that scylla has, and against pgmq."""
    settings = ASYNC if asynchronous else {}
    what = "send" if script.startswith("submit") else "read and delete"
    number = "1 client" if clients == 1 else f"{clients} clients"
    what = f"{what} {size:,} by pgmq's functions{' with synchronous_commit off' if asynchronous else ''}, {number}"
    sides = tuple(Side(system, script, size, clients, settings=settings) for system in ("pgmq-api", "pgmq"))
    return Compare(f"pgmq-{name}", "pgmq", what, sides, (Target("pgmq", 1),))


def joined(size: int, clients: int, *targets: Target) -> Compare:
    """Return and own the next ones in one statement, against two."""
    kind = "1" if size == 1 else "many"
    one = Side("scylla", f"joined-{kind}", size, clients, "one statement", held=size)
    two = Side("scylla", f"work-{kind}", size, clients, "two statements")
    what = f"return {size:,} and own the next {size:,} in one statement, {clients} clients"
    return Compare(f"joined-{size}", "joined", what, (one, two), targets)


def outcomes(size: int) -> Compare:
    """return_many with several outcomes, against return_tasks of completed ones with as many results."""
    many = Side("scylla", "work-outcomes", size, 4, "return_many")
    tasks = Side("scylla", "work-results", size, 4, "return_tasks")
    what = f"own {size:,} and return them, a tenth as aborted, with return_many, 4 clients"
    return Compare(f"return-many-{size}", "joined", what, (many, tasks), (Target("return_tasks", 0.95),))


def spec(label: str, size: int, clients: int) -> tuple[Compare, Compare]:
    """Specs of one size: submitting them, and owning, reading and returning."""

    def both(script: str) -> tuple[Side, ...]:
        fill_size = 100 if size <= 10_000 else 5
        define = {"bytes": size}
        return tuple(
            Side(system, script, clients=clients, fill="submit-specs", fill_size=fill_size, define=define)
            for system in ("scylla", "plain")
        )

    submit = f"submit one task with a spec of {label}, {clients} clients"
    take = f"own one, read its spec of {label}, return it, {clients} clients"
    return (
        Compare(f"submit-{label}", "specs", submit, both("submit-spec")),
        Compare(f"work-{label}", "specs", take, both("work-spec")),
    )


def limit(name: str, value: int) -> Compare:
    """A queue with a limit that is never reached, against the same without."""
    limited = Side("scylla", "work-1", name=name, during=lambda bench: bench.configured("bench", **{name: value}))
    what = f"own and return 1 from a queue with {name}, never reached, 16 clients"
    return Compare(f"limits-{name}", "queues", what, (limited, Side("scylla", "work-1")), (Target("scylla", 0.9),))


def in_turn(system: str, name: str) -> Side:
    """Clients that go round 64 queues."""
    return Side(system, "work-queues", name=name, fill="submit-queues", fill_size=6400, queues=64, define={"next": 0})


def groups(number: int, target: float) -> Compare:
    """A queue with so many groups, against one without."""
    name = f"{number:,} groups" if number > 1 else "1 group"
    define = {"queue": f"grouped-{number}", "groups": number}
    grouped = Side("scylla", "work-1", name=name, fill="submit-groups", define=define)
    what = f"own and return 1 from a queue with {name}, 16 clients"
    return Compare(f"groups-{number}", "groups", what, (grouped, Side("scylla", "work-1")), (Target("scylla", target),))


def shapes(size: int) -> Compare:
    """Settling by a new record beside settling by a moved row; scylla for comparison."""
    what = f"read {size:,} and settle them, 4 clients: a record for each, or the row moved"
    return Compare(f"shape-{size}", "shape", what, sides(("appended", "moved", "scylla"), "work-many", size, 4))


def workers(language: peers.Language, what: str) -> Special:
    """A client's worker beside those of peers in the same language."""
    what = f"tasks through the worker of the client in {what}, beside peers' workers"
    return Special(f"workers-{language.name}", "workers", what, peers.beside(language), own_server=True)


ASYNC = {"synchronous_commit": "off"}

WORKLOADS: tuple[Workload, ...] = (
    # ---- submitting ----
    Compare(
        "submit-1",
        "submit",
        "submit one task, 16 clients",
        sides(EVERYONE, "submit-1", 1, 16),
        (Target("plain", 0.95),),
    ),
    Compare(
        "submit-1000",
        "submit",
        "submit 1,000 tasks with submit_many, 4 clients",
        sides(EVERYONE, "submit-many", 1000, 4),
        (Target("plain", 0.8),),
    ),
    Compare(
        "submit_tasks-1000",
        "submit",
        "submit 1,000 tasks with submit_tasks, 4 clients",
        (Side("scylla", "submit-tasks", 1000, 4), Side("plain", "submit-many", 1000, 4)),
        (Target("plain", 0.5),),
    ),
    Compare(
        "listeners",
        "submit",
        "submit one task, 16 clients, while 100 sessions listen to the queue",
        (Side("scylla", "submit-1", name="100 listeners", during=Bench.listeners), Side("scylla", "submit-1")),
        (Target("scylla", 0.9),),
    ),
    # ---- owning and returning ----
    work(1, 16, Target("floor", 0.65), Target("plain", 3), Target(BEST_PEER, 2.5)),
    work(10, 8),
    work(100, 4, Target("plain", 4), Target(BEST_PEER, 3)),
    work(1000, 4, Target("plain", 3)),
    joined(1, 16, Target("two statements", 1.2)),
    joined(10, 8),
    joined(100, 4),
    joined(1000, 4),
    outcomes(100),
    outcomes(1000),
    # ---- pgmq's functions ----
    messages("send-1", "submit-1", 1, 16),
    messages("send-1-alone", "submit-1", 1, 1),
    messages("send-1-async", "submit-1", 1, 16, asynchronous=True),
    messages("send-1000", "submit-many", 1000, 4),
    messages("read-1", "work-1", 1, 16),
    messages("read-1-alone", "work-1", 1, 1),
    messages("read-1-async", "work-1", 1, 16, asynchronous=True),
    messages("read-10", "work-many", 10, 8),
    messages("read-100", "work-many", 100, 4),
    messages("read-1000", "work-many", 1000, 4),
    Special("pgmq-import", "pgmq", "move a queue of pgmq with 1,000,000 messages", moving.move),
    Special("binary-work", "binary", "own and return with binary parameters, against pgbench's text", binary.work),
    Special("binary-submit", "binary", "submit_many of 1,000 with binary parameters, against text", binary.submit),
    Special("worker", "worker", "tasks through the worker of the client in Rust, against its driver", rust.worker),
    workers(peers.NODE, "TypeScript"),
    workers(peers.PYTHON, "Python"),
    workers(peers.GO, "Go"),
    Special("heartbeat", "leases", "extend 100,000 leases; what owning and extending write", leases.heartbeat),
    Special("heartbeat-100", "leases", "heartbeat by 100, against extend_tasks", leases.by_hundred),
    # ---- what changes the rate ----
    Special("clients", "clients", "own and return 1, with 1 to 64 clients", storage.clients),
    Special("depth", "depth", "own and return 1, with 10,000 to 10,000,000 tasks waiting", storage.depth),
    Special("snapshot", "snapshot", "own and return while another session holds a snapshot", storage.snapshot),
    Compare(
        "queues",
        "queues",
        "own and return 1 from 64 queues in turn, 16 clients",
        (
            in_turn("scylla", "64 queues"),
            Side("scylla", "work-1", define={"queue": "one"}),
            in_turn("plain", "plain, 64 queues"),
        ),
    ),
    groups(1, 0.9),
    groups(100, 0.9),
    groups(100_000, 0.7),
    Compare(
        "groups-in-order",
        "groups",
        "own and return 1 from a queue with 10,000 groups that keep their order, 16 clients",
        (
            Side(
                "scylla",
                "work-1",
                name="in order",
                setup="select scylla.configure_queue('ordered', max_running_per_group => 1)",
                fill="submit-groups",
                define={"queue": "ordered", "groups": 10_000},
            ),
            Side("scylla", "work-1", define={"queue": "plain"}),
        ),
        (Target("scylla", 0.65),),
    ),
    Special("groups-shares", "groups", "one large group beside 999 small ones", queues.shares),
    limit("max_running", 100_000),
    limit("max_per_second", 10_000_000),
    Special("flood", "queues", "a quiet queue while another one is flooded", queues.flood),
    *spec("100B", 100, 16),
    *spec("10KB", 10_000, 8),
    *spec("500KB", 500_000, 4),
    Compare(
        "async-submit-1",
        "asynchronous",
        "submit one task with synchronous_commit off, 16 clients",
        tuple(Side(system, "submit-1", settings=ASYNC) for system in EVERYONE),
    ),
    Compare(
        "async-work-1",
        "asynchronous",
        "own and return 1 with synchronous_commit off, 16 clients",
        tuple(Side(system, "work-1", settings=ASYNC) for system in EVERYONE),
    ),
    # ---- several at once ----
    Special("together", "together", "8 producers and 8 consumers", queues.produce_and_consume),
    Special("mixed", "together", "with delays, dependencies and schedules", queues.mixed),
    # ---- dependencies ----
    Special("fanin", "dependencies", "return by 100, 16 clients; one dependent of all", dependencies.fanin),
    Compare(
        "shared",
        "dependencies",
        "own and return 1 of tasks with one shared dependent, 16 clients",
        (
            Side("scylla", "work-1", name="one dependent", fill="submit-shared", define={"queue": "shared"}),
            Side("scylla", "work-1"),
        ),
        (Target("scylla", 0.6),),
    ),
    Special("chain", "dependencies", "the links of a chain, own and return by one client", dependencies.chain),
    Special("graph", "dependencies", "submit one batch with three edges a task", dependencies.graph),
    # ---- time ----
    Special("wake", "latency", "from submit to a worker that waits", waking.wake),
    Special("cancel", "latency", "how soon a worker hears that its task was cancelled", waking.cancel),
    Special("paced", "latency", "500 tasks per second, from submitted to owned", waking.ready_to_owned),
    Special("backlog", "time", "waiting tasks that fall due at once", delays.backlog, own_server=True),
    Special("fire", "latency", "1,000 messages per second, due 3 to 10 s later", delays.fire),
    Special("schedules", "time", "schedules that are due at the same time", schedules.together),
    Special("spread", "latency", "schedules with a run each minute, spread over it", schedules.spread),
    Special("registered", "time", "schedules that are not due", schedules.registered, own_server=True),
    # ---- operating ----
    Special("pages", "operating", "a page of list_tasks, of 10,000,000 tasks", operating.pages),
    Special("bulk", "operating", "cancel, resubmit and delete 100,000 tasks, a call each", operating.bulk),
    Special("relay", "relay", "tasks from an outbox through the relay", moving.carry),
    # ---- more than one server ----
    Special("router", "router", "calls through a router with four shards, against a direct connection", router.cost),
    Special("lock", "cores", "instructions under the board's lock; 1 to 64 cores, simulated", lock.lock),
    # ---- what goes on for long, and what breaks ----
    Special(
        "steady", "endurance", "2,000 tasks per second before, while and after a snapshot is held", endurance.steady
    ),
    Special("crash", "endurance", "256 workers, and the server killed in the middle", breaking.crash),
    Special("worker-killed", "endurance", "256 workers, and a quarter of their processes killed", breaking.workers),
    # ---- what it takes ----
    Special("wal", "wal", "WAL from submit to completed, spec of 100 bytes", storage.wal),
    shapes(100),
    shapes(1000),
    Special("shape-size", "shape", "what a settled task leaves, and what it costs to pass over", storage.shape),
    Special("memory", "memory", "the shared memory of the board", storage.memory),
)


def chosen(only: str | None) -> list[Workload]:
    """The workloads with these names, or of these families."""
    if not only:
        return list(WORKLOADS)
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if not any(name in (workload.name, workload.family) for workload in WORKLOADS):
            raise SystemExit(f"bench: there is no workload or family {name}: see bench/run --list")
    return [workload for workload in WORKLOADS if workload.name in names or workload.family in names]
