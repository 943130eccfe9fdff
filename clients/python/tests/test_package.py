"""What is handed out: built, installed elsewhere, typed, and made from its source."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import TESTS, Server

PROJECT = TESTS.parent

CONSUMER = """
import threading, scylla_pg, sys
from scylla_pg import Client, Queue, Worker
client = Client()
queue = Queue(sys.argv[1], client=client)
@queue.task
def double(n: int) -> int:
    return 2 * n
id = double.using(post_result=True).submit(21)
worker = Worker("", queue)
thread = threading.Thread(target=worker.run)
thread.start()
print(scylla_pg.__version__, client.result(id, timeout=20))
worker.stop()
thread.join()
"""


def run(*words: object, **options: object) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_sync_client_is_what_the_async_one_makes() -> None:
    run(sys.executable, PROJECT / "tools/make_sync.py", "--check")


def test_types_are_strict() -> None:
    assert "0 errors" in run(
        sys.executable, "-m", "pyright", "-p", PROJECT, "--pythonpath", sys.executable
    )


def test_worker_stays_small() -> None:
    assert len((PROJECT / "src/scylla_pg/worker.py").read_text().splitlines()) < 900


def test_types_that_users_see(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(
        """
from uuid import UUID
from scylla_pg import Queue, Task
queue = Queue("q")
@queue.task
def plain(to: str, n: int = 1) -> None: ...
@queue.task(max_tries=3)
async def with_task(task: Task, to: str) -> int:
    return 1
a: UUID = plain.submit(to="x")
b: UUID = plain.submit("x", conn=object())
c: UUID = plain.using(key="k").submit(to="x", n=2)
d: UUID = with_task.submit(to="x")
plain.submit(two="x")  # error
plain.using().submit(to=3)  # error
with_task.using().submit(1, "x")  # error
plain.using(prioritee=1)  # error
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, tmp_path / "user.py"],
        capture_output=True,
        text=True,
    )
    lines = {
        int(line.split("user.py:")[1].split(":")[0])
        for line in done.stdout.splitlines()
        if "user.py:" in line and " error" in line
    }
    assert lines == {14, 15, 16, 17}, done.stdout


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_built_package_works_in_a_clean_environment(
    server: Server, tmp_path: Path, queue_name: str, kind: str
) -> None:
    run(sys.executable, "-m", "build", f"--{kind}", "--outdir", tmp_path, PROJECT)
    (built,) = (path for path in tmp_path.iterdir() if path.suffix in (".whl", ".gz"))
    if kind == "wheel":
        names = zipfile.ZipFile(built).namelist()
    else:
        names = tarfile.open(built).getnames()
    for needed in ("scylla_pg/py.typed", "scylla_pg/django/management/commands/scylla_worker.py"):
        assert any(name.endswith(needed) for name in names), names
    assert not any("django_project" in name and kind == "wheel" for name in names)
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", "-q", f"{built}[binary]")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    variables = {**os.environ, **server.environment, "PYTHONPATH": ""}
    assert run(python, "consumer.py", queue_name, cwd=tmp_path, env=variables) == "0.1.0 42\n"
    # nothing but the driver at run time
    freeze = run(python, "-m", "pip", "list", "--format=freeze").lower()
    installed = {line.split("==")[0] for line in freeze.split()}
    allowed = {"pip", "setuptools", "psycopg", "psycopg-binary", "typing_extensions"}
    assert installed - {"scylla-pg"} <= allowed, installed
