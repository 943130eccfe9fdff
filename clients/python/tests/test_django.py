"""The backend for django-tasks, and submitting with Django's connection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from conftest import TESTS, Server, until

from scylla_pg import Client, Queue


@pytest.fixture(scope="module")
def tasks(server: Server) -> Iterator[Any]:
    os.environ["SCYLLA_TEST_DSN"] = server.dsn
    os.environ["DJANGO_SETTINGS_MODULE"] = "django_project.settings"
    import django

    django.setup()
    from django_project import tasks

    yield tasks
    from django.db import connections

    connections.close_all()


@pytest.fixture
def worker(server: Server, tasks: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "scylla_worker", "--concurrency", "3"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    print(output)
    assert process.returncode == 0
    assert "serves default, django-mail" in output


def test_enqueue_is_part_of_the_transaction(server: Server, tasks: Any) -> None:
    from django.db import transaction

    class Undo(Exception):
        pass

    with pytest.raises(Undo), transaction.atomic():
        undone = tasks.add.enqueue(1, 2)
        assert tasks.add.get_result(undone.id).status == "READY"
        raise Undo
    from django_tasks.exceptions import TaskResultDoesNotExist

    for id in (undone.id, str(uuid.uuid4()), "no uuid"):
        with pytest.raises(TaskResultDoesNotExist):
            tasks.add.get_result(id)
    # looking for one that does not exist leaves the transaction usable
    with transaction.atomic():
        with pytest.raises(TaskResultDoesNotExist):
            tasks.add.get_result(str(uuid.uuid4()))
        kept = tasks.add.enqueue(1, b=2)
    assert tasks.add.get_result(kept.id).kwargs == {"b": 2}


def test_results(tasks: Any, worker: Any) -> None:
    from django_tasks import TaskResultStatus

    results = {
        "add": tasks.add.enqueue(40, b=2),
        "greet": tasks.greet.enqueue("joe"),
        "fail": tasks.fail.enqueue(),
        "attempt": tasks.attempt.enqueue(),
    }

    def all_finished() -> bool:
        for result in results.values():
            result.refresh()
        return all(result.is_finished for result in results.values())

    until(all_finished)
    add, greet = results["add"], results["greet"]
    assert (add.return_value, greet.return_value) == (42, "hello joe")
    assert add.attempts == 1 and add.enqueued_at <= add.started_at <= add.finished_at
    assert results["attempt"].return_value == 2
    fail = results["fail"]
    assert fail.status == TaskResultStatus.FAILED and fail.attempts == 2
    assert [error.exception_class for error in fail.errors] == [LookupError, LookupError]
    assert "no such thing" in fail.errors[0].traceback
    with pytest.raises(ValueError):
        fail.return_value  # noqa: B018


def test_priority_and_run_after(server: Server, tasks: Any) -> None:
    from django.utils import timezone

    after = timezone.now() + timedelta(hours=1)
    low = tasks.add.using(priority=-100, run_after=after).enqueue(1)
    row = server.execute("select * from scylla.tasks where id = %s", low.id)[0]
    assert (row["priority"], row["run_at"], row["status"]) == (0, after, "waiting")
    found = tasks.add.get_result(low.id)
    assert (found.task.priority, found.task.run_after) == (-100, after)


def test_submit_with_djangos_connection(server: Server, tasks: Any, queue_name: str) -> None:
    from django.db import connection, transaction

    queue = Queue(queue_name)

    @queue.task
    def welcome(to: str) -> None: ...

    with transaction.atomic():
        welcome.submit(to="100 % sure", conn=connection)
        assert server.statuses(queue_name) == {}
    Client(server.dsn).submit(queue_name, conn=connection)
    assert server.statuses(queue_name) == {"ready": 2}


def test_capture_works_for_the_backend(tasks: Any) -> None:
    from scylla_pg.testing import assert_submitted, capture

    with capture() as captured:
        tasks.greet.enqueue("joe")
    one = assert_submitted(captured, "django-mail", args=["joe"])
    assert one.options["priority"] == 150
