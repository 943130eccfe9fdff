"""scylla_pg.testing itself."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest
from conftest import Server

from scylla_pg import Abort, Client, Queue, Snooze, Task
from scylla_pg.testing import assert_submitted, capture, run_ready, submitted


@pytest.fixture
def mail(queue_name: str) -> Any:
    queue = Queue(queue_name)
    sent: list[str] = []

    @queue.task
    def welcome(to: str) -> str:
        sent.append(to)
        if to == "two":
            follow_up.submit(to=to)
        return to.upper()

    @queue.task
    async def follow_up(task: Task, to: str) -> None:
        sent.append(f"follow {to}")

    @queue.task
    def fail(how: str) -> None:
        if how == "abort":
            raise Abort("nope")
        if how == "snooze":
            raise Snooze(60)
        raise LookupError(how)

    queue.sent = sent  # type: ignore[attr-defined]
    return queue


def test_capture_sends_nothing(server: Server, mail: Any) -> None:
    welcome = mail.functions["welcome"]
    client = Client("host=/nowhere")
    with capture() as captured:
        id = welcome.using(key="k").submit("one")
        ids = client.submit_many(mail.name, [{"to": "a"}, {"to": "b"}], action="welcome")
        given = uuid.uuid4()
        assert client.submit(mail.name, {"to": "c"}, id=given) == given
        with pytest.raises(ValueError, match="NUL"):
            welcome.submit("\0")
    assert [one.id for one in captured] == [id, *ids, given]
    one = assert_submitted(captured, welcome, to="one")
    assert one.options["key"] == "k"
    assert_submitted(captured, mail)
    with pytest.raises(AssertionError, match=r"with {'to': 'none'}, but these: \[{'to': 'one'}"):
        assert_submitted(captured, welcome, to="none")
    with pytest.raises(AssertionError):
        assert_submitted(captured, mail.functions["follow_up"])
    with pytest.raises(TypeError, match="give conn"):
        welcome.submit("after it nothing is captured")


def test_captured_tasks_run_here(mail: Any) -> None:
    with capture() as captured:
        mail.functions["welcome"].submit("one")
        mail.functions["welcome"].submit("two")
        ran = captured.run(mail)
    assert mail.sent == ["one", "two", "follow two"]
    assert [(one.outcome, one.result) for one in ran] == [
        ("completed", "ONE"),
        ("completed", "TWO"),
        ("completed", None),
    ]
    with capture() as captured:
        mail.functions["fail"].submit("abort")
        mail.functions["fail"].submit("snooze")
        assert [one.outcome for one in captured.run(mail)] == ["aborted", "yield"]
        mail.functions["fail"].submit("other")
        with pytest.raises(LookupError):
            captured.run(mail)


def test_submitted_in_a_transaction(server: Server, mail: Any) -> None:
    welcome = mail.functions["welcome"]
    with psycopg.connect(server.dsn) as conn:
        welcome.submit("one", conn=conn)
        assert [one.spec for one in submitted(conn, mail)] == [{"to": "one"}]
        assert_submitted(conn, welcome, to="one")
        conn.rollback()
        assert submitted(conn, mail) == submitted(conn, mail.name) == []


def test_run_ready(server: Server, client: Client, mail: Any) -> None:
    mail.client = client
    welcome, fail = mail.functions["welcome"], mail.functions["fail"]
    ids = [welcome.submit("one"), welcome.submit("two")]
    ran = run_ready(server.dsn, mail)
    assert [one.task.id for one in ran][:2] == ids
    assert mail.sent == ["one", "two", "follow two"]
    assert client.task(ids[0])["result"] == "ONE"
    assert run_ready(server.dsn, mail) == []

    failing = fail.using(retry_interval=60).submit("other")
    with pytest.raises(LookupError):
        run_ready(server.dsn, mail)
    assert client.task(failing)["errors"][0]["code"] == "LookupError"
    fail.submit("abort")
    assert [one.outcome for one in run_ready(server.dsn, mail)] == ["aborted"]
    fail.using(retry_interval=60).submit("other")
    one = run_ready(server.dsn, mail, raise_errors=False)[0]
    assert one.outcome == "retry" and isinstance(one.error, LookupError)
