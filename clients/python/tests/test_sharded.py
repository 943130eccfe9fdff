"""examples/sharded and its page, on four servers: one is killed, and a worker is stopped."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from uuid import UUID

import psycopg
import pytest
from conftest import REPOSITORY, TESTS, Server, until

SAMPLE = REPOSITORY / "examples/sharded"
PAGE = (REPOSITORY / "docs/guides/server/sharded.md").read_text()
CUSTOMERS = [f"customer {number}" for number in range(40)]
UNFINISHED = """
    select count(*) from scylla.tasks
    where queue = 'receipts' and status in ('waiting', 'ready', 'running')"""
RECEIPT = 'select shard from receipts where "order" = %s'


class Shard(Server):
    """A server whose database `shop` was made by setup.sql."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(folder)
        self.number = number
        self.execute("create database shop")
        self.dsn = self.dsn.replace("dbname=postgres", "dbname=shop")
        self.address = self.dsn.replace("user=postgres", "user=shop")
        psql = Path(self.environment["SCYLLA_BIN"]) / "psql"
        words = f"-Xq -1 -v ON_ERROR_STOP=1 -v shard={number} -d shop -f setup.sql".split()
        run([psql, *words], self.environment)

    def kill(self) -> None:
        self._pg("kill")

    def receipts(self) -> int:
        return self.value("select count(*) from receipts")


def run(words: list[str | Path], environment: dict[str, str], folder: Path = SAMPLE) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shards() -> Iterator[list[Shard]]:
    # four clusters are much to write and to delete: in memory, if there is room
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30
    folder = Path(tempfile.mkdtemp(prefix="scylla-sharded.", dir=memory if roomy else "/var/tmp"))
    folder.chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        try:
            yield list(pool.map(lambda number: Shard(folder / f"{number}", number), range(1, 5)))
        finally:
            pg = REPOSITORY / "scripts/pg"
            list(pool.map(lambda left: run([pg, "remove", left], {}), folder.iterdir()))
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def addresses(shards: list[Shard]) -> dict[str, str]:
    return {"SHARDS": ";".join(shard.address for shard in shards)}


@pytest.fixture
def shop(addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """shop.py, as a module of this process."""
    monkeypatch.setenv("SHARDS", addresses["SHARDS"])
    monkeypatch.syspath_prepend(SAMPLE)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    import shop

    return shop


Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(addresses: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts a worker process."""
    log = (tmp_path / "log").open("w+")
    made: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        words = [sys.executable, "worker.py"]
        environment = {**os.environ, **addresses}
        made.append(subprocess.Popen(words, cwd=SAMPLE, env=environment, stderr=log))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.wait()
    log.seek(0)
    print(log.read())  # for the report of a test that failed


class ChangedMind(Exception):
    """Rolls an order back."""


class Customers:
    """Places orders from four threads, each in a transaction, and rolls every fourth back."""

    def __init__(self, shop: ModuleType) -> None:
        self.shop = shop
        self.committed: dict[int, tuple[int, UUID]] = {}  # by order: its shard and its task
        self.rolled_back: dict[int, UUID] = {}
        self.failed = 0  # its shard was away, or died: a commit whose answer was lost may count
        self.errors: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._buy, args=(seed,)) for seed in range(4)]

    def __enter__(self) -> Customers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors, self.errors

    def _buy(self, seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not self._stop.wait(0.1):
                self._place(chance.choice(CUSTOMERS), chance.randint(1, 1000), chance.random())
        except BaseException as error:
            self.errors.append(error)

    def _place(self, customer: str, cents: int, chance: float) -> None:
        shard = self.shop.shard_of(customer)
        order, task = 0, UUID(int=0)
        try:
            with psycopg.connect(self.shop.SHARDS[shard]) as conn:
                order, task = self.shop.place_order(conn, customer, cents)
                if chance < 0.25:
                    raise ChangedMind
            self.committed[order] = shard, task
        except ChangedMind:
            self.rolled_back[order] = task
        except psycopg.OperationalError:
            self.failed += 1


def go_on(shards: list[Shard], number: int = 5) -> None:
    """Waits until each of them has so many more receipts."""
    aims = {shard: shard.receipts() + number for shard in shards}
    until(lambda: all(shard.receipts() >= aim for shard, aim in aims.items()), 60)


def test_each_order_has_one_receipt(
    shards: list[Shard], shop: ModuleType, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    def report() -> list[list[str]]:
        shop.report()
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    dead = shards[2]
    others = [shard for shard in shards if shard is not dead]
    with Customers(shop) as customers:
        first = start()
        go_on(shards)
        dead.kill()
        go_on(others)
        assert ["3", "away"] in report()
        second = start()  # while a shard is away
        first.send_signal(signal.SIGTERM)
        go_on(others)  # the second does this: the first owns nothing more
        dead.start()
        go_on(shards)
    until(lambda: not any(shard.value(UNFINISHED) for shard in shards), 60)
    counted = report()
    second.send_signal(signal.SIGTERM)
    assert [first.wait(40), second.wait(40)] == [0, 0]

    assert customers.failed and customers.rolled_back
    placed: dict[int, int] = {}
    for shard in shards:
        tasks = shard.execute("select id, key, status from scylla.tasks where queue = 'receipts'")
        orders = {row["id"]: row["customer"] for row in shard.execute("table orders")}
        receipts = shard.execute("table receipts")
        # each order has one task and one receipt; nothing else has
        assert sorted(int(task["key"]) for task in tasks) == sorted(orders)
        assert sorted(receipt["order"] for receipt in receipts) == sorted(orders)
        assert {task["status"] for task in tasks} == {"completed"}
        mine = {order: id for order, (n, id) in customers.committed.items() if n == shard.number}
        assert mine.items() <= {int(task["key"]): task["id"] for task in tasks}.items()
        assert not customers.rolled_back.keys() & orders.keys()
        # all of it is where it belongs, and ids say so
        assert {shop.shard_of(customer) for customer in orders.values()} == {shard.number}
        assert {receipt["shard"] for receipt in receipts} == {shard.number}
        assert {task["id"].bytes[-1] for task in tasks} == {shard.number}
        assert {order % 256 for order in orders} == {shard.number}
        placed[shard.number] = len(orders)
    assert 0 <= sum(placed.values()) - len(customers.committed) <= customers.failed
    assert counted[0] == ["shard", "ready", "running", "done"]
    for shard, (number, ready, running, done) in zip(shards, counted[1:], strict=True):
        assert (number, ready, running) == (str(shard.number), "0", "0")
        # a crash may lose the last five seconds of the counts
        assert int(done) == placed[shard.number] or shard is dead
    print(placed, len(customers.rolled_back), "rolled back,", customers.failed, "failed")


def test_a_customer_moves(shards: list[Shard], shop: ModuleType, start: Start) -> None:
    """By the statements of the page; the receipt that is due later is written on the new shard."""
    section = PAGE[PAGE.index("## Move a customer") :]
    blocks = re.findall(r"```text\n *-- (on the \w+ shard).*\n((?:.*\n)*?) *```", section)
    assert [where.split()[2] for where, _ in blocks] == ["old", "old", "new", "old"]
    busy, carried, submit, cancel = (sql.replace("$1", "%s") for _, sql in blocks)
    old, new = shards[0], shards[3]
    with psycopg.connect(old.address) as conn:
        order, task = shop.place_order(conn, "ann", 995)
    assert old.value(busy) == 1  # ready
    assert old.value("select scylla.delay(%s, now() + interval '3 s')", task)
    assert not old.execute(busy)
    for outcome in ("inserted", "duplicate"):  # the second time after an interruption
        tasks = old.value(carried)
        if outcome == "inserted":
            new.execute("insert into orders overriding system value values (%s, 'ann', 995)", order)
        assert [row["outcome"] for row in new.execute(submit, json.dumps(tasks))] == [outcome]
    assert old.value(cancel) == 1
    assert old.value(carried) == []
    start()
    until(lambda: new.value(RECEIPT, order) == new.number)
    assert not old.execute(RECEIPT, order)
    # nothing waits for a task of another shard
    other = old.value("select scylla.submit('x', run_at => now() + interval '1 day')")
    id = new.value("select scylla.submit('x', after => array[%s])", other)
    assert new.value("select status from scylla.tasks where id = %s", id) == "ready"


def test_a_repeated_try_writes_no_second_receipt(
    shards: list[Shard], shop: ModuleType, start: Start
) -> None:
    shard = shards[1]
    start()
    with psycopg.connect(shard.address) as conn:
        order, _ = shop.place_order(conn, "kim", 1)
    until(lambda: shard.execute(RECEIPT, order))
    sql = "select scylla.submit('receipts', jsonb_build_object('order', %s::bigint), 'receipt')"
    again = shard.value(sql, order)
    sql = "select status from scylla.tasks where id = %s"
    until(lambda: shard.value(sql, again) == "completed")
    assert len(shard.execute(RECEIPT, order)) == 1


def test_command_line(shop: ModuleType, addresses: dict[str, str]) -> None:
    said = run([sys.executable, "shop.py", "order", "kim", "995"], addresses)
    shard = shop.shard_of("kim")
    found = re.fullmatch(rf"order \d+ is on shard {shard}, as is its task \S+{shard:02x}\n", said)
    assert found, said
    assert "    4  " in run([sys.executable, "shop.py", "report"], addresses)


def test_sample_is_typed_and_formatted(tmp_path: Path) -> None:
    project, programs = TESTS.parent, Path(sys.executable).parent
    for words in (["check", "--quiet"], ["format", "--quiet", "--check"]):
        config = ["--no-cache", "--config", project / "pyproject.toml"]
        run([programs / "ruff", *words, *config, SAMPLE], {}, project)
    folder = os.path.relpath(SAMPLE, tmp_path)
    settings = {"include": [folder], "extraPaths": [folder], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    words = ["-m", "pyright", "-p", tmp_path, "--pythonpath", sys.executable]
    assert "0 errors" in run([sys.executable, *words], {})


def test_page_shows_the_sample() -> None:
    sample = "".join(path.read_text() for path in SAMPLE.iterdir() if path.is_file())
    blocks = re.findall(r"^   ```python\n(.*?)^   ```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        assert re.sub(r"^   ", "", block, flags=re.MULTILINE) in sample, block
