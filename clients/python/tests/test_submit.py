"""Submitting: what goes in, in whose transaction, and what is refused."""

from __future__ import annotations

import asyncio
import enum
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from conftest import Server
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from scylla_pg import (
    AsyncClient,
    Client,
    DatabaseError,
    DuplicateError,
    NotFoundError,
    NotPermittedError,
    Queue,
    QueueFullError,
    Submission,
    Task,
    calls,
)
from scylla_pg.errors import sqlstate


def url(server: Server, driver: str) -> sqlalchemy.URL:
    known = psycopg.conninfo.conninfo_to_dict(server.dsn)
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=known["user"],
        host="127.0.0.1",
        port=int(known["port"]),
        database=known["dbname"],
    )


def count(server: Server, queue: str) -> int:
    return server.value("select count(*) from scylla.tasks where queue = %s", queue)


@pytest.fixture
def welcome(queue: Queue) -> Any:
    @queue.task
    def welcome(to: str, lang: str = "en") -> None: ...

    return welcome


def test_all_options_arrive(server: Server, client: Client, queue_name: str) -> None:
    before = client.submit(queue_name, {"first": 1})
    id = client.submit(
        queue_name,
        {"a": [1, {"b": None}]},
        action="act",
        priority=7,
        id=uuid.uuid4(),
        key="k",
        on_conflict="ignore",
        run_at=datetime(2030, 1, 2, tzinfo=timezone.utc),
        after=[before],
        on_failure="run",
        max_tries=3,
        retry_interval=timedelta(seconds=1.5),
        retry_jitter=0.25,
        lease="1 minute",
        post_result=True,
        group_key="g",
        meta={"trace": "x"},
    )
    row = server.execute("select * from scylla.tasks where id = %s", id)[0]
    task = client.task(id)
    assert task["spec"] == {"a": [1, {"b": None}]}
    assert (task["action"], task["priority"], task["key"], task["max_tries"]) == ("act", 7, "k", 3)
    assert (task["group_key"], task["after"]) == ("g", [str(before)])
    assert row["run_at"] == datetime(2030, 1, 2, tzinfo=timezone.utc)
    assert client.task_id(queue_name, "k") == id
    assert "waits" in client.why(id) or str(before) in client.why(id)


def test_unknown_option_is_refused(client: Client, queue_name: str) -> None:
    with pytest.raises(TypeError, match="no argument 'prioritee'"):
        client.submit(queue_name, {}, prioritee=3)  # type: ignore[call-arg]


def test_relative_run_at_is_by_the_servers_clock(
    server: Server, client: Client, queue_name: str
) -> None:
    id = client.submit(queue_name, run_at=timedelta(minutes=5))
    seconds = server.value(
        "select extract(epoch from run_at - created)::float8 from scylla.tasks where id = %s", id
    )
    assert 299 < seconds < 302
    # 24 hours, also where the clocks are changed on the next day
    assert calls.interval(timedelta(days=1, microseconds=5)) == "86400000005 microseconds"
    assert calls.interval(timedelta(seconds=-1.5)) == "-1500000 microseconds"
    with pytest.raises(ValueError, match="time zone"):
        client.submit(queue_name, run_at=datetime(2030, 1, 1))


def test_key_error_ignore_replace(client: Client, queue_name: str) -> None:
    first = client.submit(queue_name, {"n": 1}, key="k")
    with pytest.raises(DuplicateError):
        client.submit(queue_name, {"n": 2}, key="k")
    assert client.submit(queue_name, {"n": 2}, key="k", on_conflict="ignore") == first
    third = client.submit(queue_name, {"n": 3}, key="k", on_conflict="replace")
    assert client.task(first)["status"] == "cancelled"
    assert client.task_id(queue_name, "k") == third


@pytest.mark.parametrize(
    "spec",
    [
        2**63 - 1,
        -(2**63),
        10**40,
        "🦑 \\ \" ' {} % %s ::text :p1",
        [1.5, True, None, []],
        {"deep": [[[[[[[[[[{"er": {}}]]]]]]]]]]},
        "x" * 100_000,
    ],
    ids=["int64", "int64-min", "beyond", "quotes", "mixed", "deep", "long"],
)
def test_spec_comes_back_as_it_was(client: Client, queue_name: str, spec: Any) -> None:
    assert client.task(client.submit(queue_name, spec))["spec"] == spec
    assert client.task(client.submit_many(queue_name, [spec])[0])["spec"] == spec


@pytest.mark.parametrize("spec", ["a\0b", {"a\0": 1}, "half \ud83d", float("nan"), object()])
def test_spec_that_json_cannot_hold_is_refused(client: Client, queue_name: str, spec: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        client.submit(queue_name, spec)


def test_spec_too_large(client: Client, queue_name: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        client.submit(queue_name, "x" * 2_000_000)
    assert sqlstate(caught.value) == "54000"
    assert client.about()["protocol"] == 1  # the connection is of use still


def test_queue_full_is_told_at_once(server: Server, client: Client, queue_name: str) -> None:
    server.execute("select scylla.configure_queue(%s, max_ready => 2)", queue_name)
    client.submit_many(queue_name, [1, 2])
    with pytest.raises(QueueFullError, match=f'queue "{queue_name}" is full\nDETAIL:  .*\nHINT:  '):
        client.submit(queue_name, 3)


def test_what_is_no_such_refusal_stays_the_drivers_error(
    client: Client, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.submit(queue_name, max_tries=-1)
    # another limit of the server than that of a queue; a transaction that is to be repeated
    for code, kind in (
        ("53400", psycopg.errors.ConfigurationLimitExceeded),
        ("40001", psycopg.errors.SerializationFailure),
    ):
        sql = f"do $$ begin raise 'too many databases' using errcode = '{code}'; end $$"
        failing = calls.Call(sql, (), lambda row: row)
        monkeypatch.setattr(calls, "about", lambda failing=failing: failing)
        with Client(client._conninfo, patience=0) as other, pytest.raises(kind):
            other.about()


def test_not_found_and_not_permitted(server: Server, client: Client, queue_name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.task(uuid.uuid4())
    assert caught.value.sqlstate == "P0002"
    server.execute("create role stranger_py login")
    with Client(f"{server.dsn} user=stranger_py") as stranger:
        with pytest.raises(NotPermittedError) as refused:
            stranger.submit(queue_name)
    assert refused.value.sqlstate == "42501"
    server.execute("drop role stranger_py")


@pytest.mark.parametrize(
    "driver",
    [
        "own",
        "psycopg",
        "psycopg2",
        "sqlalchemy psycopg",
        "sqlalchemy psycopg2",
        "own async",
        "psycopg async",
        "asyncpg",
        "sqlalchemy asyncpg",
    ],
)
def test_duplicate_tells_all_that_the_server_said(
    server: Server, client: Client, queue: Queue, driver: str
) -> None:
    @queue.task(key="k")
    def f() -> None: ...

    first = f.submit()
    last = driver.split()[-1]

    async def run_async() -> None:
        if last == "asyncpg":
            known = psycopg.conninfo.conninfo_to_dict(server.dsn)
            known["database"] = known.pop("dbname")
        if driver == "own async":
            async with AsyncClient(server.dsn) as own:
                await own.submit(queue.name, key="k")
        elif driver == "psycopg async":
            async with await psycopg.AsyncConnection.connect(server.dsn) as conn:
                await f.submit_async(conn=conn)
        elif driver == "asyncpg":
            other = await asyncpg.connect(**{**known, "host": "127.0.0.1"})
            try:
                await f.submit_async(conn=other)
            finally:
                await other.close()
        else:
            engine = create_async_engine(url(server, last))
            try:
                async with engine.begin() as connection:
                    await f.submit_async(conn=connection)
            finally:
                await engine.dispose()

    def run() -> None:
        if driver == "own":
            f.submit()
        elif driver in ("psycopg", "psycopg2"):
            module = psycopg if driver == "psycopg" else psycopg2
            with module.connect(server.dsn) as conn:
                f.submit(conn=conn)
        elif driver.startswith("sqlalchemy") and last != "asyncpg":
            with sqlalchemy.create_engine(url(server, last)).begin() as connection:
                f.submit(conn=connection)
        else:
            asyncio.run(run_async())

    with pytest.raises(DuplicateError) as caught:
        run()
    error = caught.value
    assert isinstance(error, DatabaseError)
    assert (error.sqlstate, error.constraint) == ("23505", "task_key")
    assert error.message == f'key "k" already exists in queue "{queue.name}"'
    assert str(first) in (error.detail or "") and error.hint
    assert str(error) == f"{error.message}\nDETAIL:  {error.detail}\nHINT:  {error.hint}"
    cause = error.__cause__
    assert cause is not None and type(cause).__module__.split(".")[0] in (
        "psycopg",
        "psycopg2",
        "sqlalchemy",
        "asyncpg",
    )


def test_submit_many_beyond_a_batch_is_one_transaction(
    server: Server, client: Client, queue_name: str
) -> None:
    ids = client.submit_many(queue_name, ({"n": n} for n in range(25_000)))
    assert len(set(ids)) == 25_000 == count(server, queue_name)
    assert client.task(ids[12_345])["spec"] == {"n": 12_345}
    with pytest.raises(DuplicateError):
        keys = [str(n) for n in range(25_000)]
        client.submit_many(queue_name, range(25_000), keys=[*keys[:-1], "0"])
    assert count(server, queue_name) == 25_000
    with pytest.raises(ValueError, match="2 keys for 1 specs"):
        client.submit_many(queue_name, [1], keys=["a", "b"])
    assert client.submit_many(queue_name, []) == []


def test_submit_tasks(client: Client, queue_name: str) -> None:
    rows = client.submit_tasks(
        [
            {"queue": queue_name, "spec": {"n": 1}, "key": "k", "lease": timedelta(minutes=1)},
            {"queue": queue_name, "key": "k"},
            {"queue": queue_name, "prioritee": 1},
        ],
        atomic=False,
    )
    assert [row["outcome"] for row in rows] == ["inserted", "duplicate", "invalid"]
    assert rows[2]["error"]


# ---- in the caller's transaction ----


def test_psycopg_commit_rollback_savepoint(server: Server, welcome: Any, queue_name: str) -> None:
    with psycopg.connect(server.dsn, row_factory=dict_row) as conn:
        welcome.submit(to="a", conn=conn)
        assert count(server, queue_name) == 0  # not committed yet
        conn.commit()
        assert count(server, queue_name) == 1
        welcome.submit(to="b", conn=conn)
        conn.rollback()
        with conn.transaction():
            welcome.using(conn, priority=3).submit("c", lang="de")
            with conn.transaction(force_rollback=True):
                welcome.submit(to="d", conn=conn)
    rows = server.execute(
        "select spec, action from scylla.tasks where queue = %s order by created", queue_name
    )
    assert [row["spec"] for row in rows] == [{"to": "a"}, {"to": "c", "lang": "de"}]
    assert {row["action"] for row in rows} == {"welcome"}


def test_client_methods_use_the_callers_connection(
    server: Server, client: Client, queue_name: str
) -> None:
    with psycopg.connect(server.dsn) as conn:
        id = client.submit(queue_name, conn=conn)
        client.submit_many(queue_name, [1, 2], conn=conn)
        assert client.task(id, conn=conn)["status"] == "ready"
        assert client.cancel(id, conn=conn)
        assert client.cancel_many([id, uuid.uuid4()], conn=conn) == [False, None]
        conn.rollback()
    assert count(server, queue_name) == 0


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sqlalchemy(server: Server, welcome: Any, queue_name: str, driver: str) -> None:
    engine = sqlalchemy.create_engine(url(server, driver))
    with Session(engine) as session:
        welcome.submit(to="rolled back: back", conn=session)
        session.rollback()
        welcome.submit(to="kept :p1 \\: %s", conn=session)
        session.commit()
    with engine.begin() as connection:
        welcome.submit(to="too", conn=connection)
    engine.dispose()
    rows = server.execute("select spec from scylla.tasks where queue = %s", queue_name)
    assert sorted(row["spec"]["to"] for row in rows) == ["kept :p1 \\: %s", "too"]


def test_asynchronous_connections(server: Server, welcome: Any, queue_name: str) -> None:
    async def run() -> None:
        conn = await psycopg.AsyncConnection.connect(server.dsn)
        await welcome.submit_async(to="psycopg", conn=conn)
        await conn.commit()
        await welcome.submit_async(to="no", conn=conn)
        await conn.close()

        known = psycopg.conninfo.conninfo_to_dict(server.dsn)
        other = await asyncpg.connect(
            host="127.0.0.1", port=known["port"], user=known["user"], database=known["dbname"]
        )
        async with other.transaction():
            await welcome.using(other, after=[uuid.uuid4()], max_tries=2).submit_async("asyncpg")
        transaction = other.transaction()
        await transaction.start()
        await welcome.submit_async(to="no", conn=other)
        await transaction.rollback()
        await other.close()
        pool = await asyncpg.create_pool(
            host="127.0.0.1",
            port=known["port"],
            user=known["user"],
            database=known["dbname"],
            min_size=1,
        )
        async with pool.acquire() as pooled:
            await welcome.submit_async(to="pooled", conn=pooled)
        await pool.close()

        for driver in ("psycopg", "asyncpg"):
            engine = create_async_engine(url(server, driver))
            async with AsyncSession(engine) as session:
                await welcome.submit_async(to=f"session {driver}", conn=session)
                await session.commit()
                await welcome.submit_async(to="no", conn=session)
            async with engine.begin() as connection:
                await welcome.submit_async(to=f"connection {driver}", conn=connection)
            await engine.dispose()

    asyncio.run(run())
    rows = server.execute("select spec from scylla.tasks where queue = %s", queue_name)
    assert sorted(row["spec"]["to"] for row in rows) == [
        "asyncpg",
        "connection asyncpg",
        "connection psycopg",
        "pooled",
        "psycopg",
        "session asyncpg",
        "session psycopg",
    ]


def test_connection_of_the_wrong_kind(server: Server, queue_name: str) -> None:
    queue = Queue(queue_name)

    @queue.task
    def f() -> None: ...

    with pytest.raises(TypeError, match="give conn"):
        f.submit()
    with pytest.raises(TypeError, match="no connection"):
        f.submit(conn=object())

    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(server.dsn) as conn:
            with pytest.raises(TypeError, match="await submit_async"):
                f.submit(conn=conn)
        with psycopg.connect(server.dsn) as other:
            with pytest.raises(TypeError, match="without await"):
                await f.submit_async(conn=other)

    asyncio.run(run())
    assert count(server, queue_name) == 0


# ---- signatures ----


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    since: date


def test_annotations_decide_what_a_handler_gets(queue: Queue, client: Client) -> None:
    @queue.task
    def f(
        task: Task,
        id: uuid.UUID,
        at: datetime,
        price: Decimal,
        colour: Colour | None,
        homes: list[Address],
        pair: tuple[int, date],
        **rest: Any,
    ) -> None: ...

    given = {
        "id": uuid.uuid4(),
        "at": datetime.now(timezone.utc),
        "price": Decimal("1.10"),
        "colour": Colour.RED,
        "homes": [Address("High Street", date(2020, 2, 3))],
        "pair": (1, date(2020, 2, 3)),
        "more": "x",
    }
    id = f.submit(**given)
    import json

    task = Task(str(id), queue.name, "f", json.dumps(client.task(id)["spec"]))
    args, kwargs = f.bind(task)
    assert args == (task,)
    assert kwargs == given


@pytest.mark.parametrize("text", ["2026-11-25T02:31:16.43812+00:00", "2026-11-25T02:31:16.43812Z"])
def test_times_as_others_write_them(queue: Queue, text: str) -> None:
    @queue.task
    def f(at: datetime) -> None: ...

    _, kwargs = f.bind(Task("0", queue.name, "f", f'{{"at": "{text}"}}'))
    assert kwargs["at"] == datetime(2026, 11, 25, 2, 31, 16, 438120, tzinfo=timezone.utc)


def test_unique_for_is_sent_only_when_given() -> None:
    plain = calls.submit(Submission("q", [{}], {"key": "k"}))
    assert "unique_for" not in plain.sql
    call = calls.submit(Submission("q", [{}], {"key": "k", "unique_for": timedelta(hours=1)}))
    assert call.sql.endswith("unique_for => %s::text::interval)::text")
    assert call.params[-1] == "3600000000 microseconds"


def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(welcome: Any) -> None:
    for args in ({}, {"to": "a", "two": 1}):
        with pytest.raises(TypeError):
            welcome.submit(**args)


def test_functions_that_cannot_be_tasks(queue: Queue) -> None:
    with pytest.raises(TypeError, match="submit has an argument conn"):

        @queue.task
        def f(conn: int) -> None: ...

    with pytest.raises(TypeError, match="needs a name"):

        @queue.task
        def g(*args: int) -> None: ...

    @queue.task
    def h() -> None: ...

    with pytest.raises(ValueError, match="has a handler"):
        queue.task(action="h")(lambda: None)


def test_async_client(server: Server, aclient: AsyncClient, queue_name: str) -> None:
    async def run() -> None:
        async with aclient as client:
            id = await client.submit(queue_name, {"n": 1})
            ids = await client.submit_many(queue_name, [1, 2, 3])
            assert (await client.task(id))["spec"] == {"n": 1}
            assert await client.cancel(id)
            assert await client.delete(ids) == 3
            again = await client.resubmit([id, uuid.uuid4()])
            assert again[0] is not None and again[1] is None
            # calls at once have connections of their own
            await asyncio.gather(*(client.submit(queue_name, n) for n in range(20)))

    asyncio.run(run())
    assert server.statuses(queue_name) == {"cancelled": 1, "ready": 21}
