"""The examples, and the files of the README, as a reader would run them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TESTS, Server, until

PROJECT = TESTS.parent


def run(server: Server, *words: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **server.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "output"),
    [
        (
            "orders.py",
            "order 1 shipped\norder 2 not shipped\n{'aborted': 1, 'completed': 3}\n",
        ),
        ("inside_asyncio.py", "[0, 10, 20, 30, 40]\n{'completed': 5, 'yielded': 1}\n"),
    ],
)
def test_example(server: Server, name: str, output: str) -> None:
    assert run(server, name, cwd=PROJECT / "examples") == output


def test_every_example_is_run() -> None:
    (parametrize,) = test_example.pytestmark
    assert {path.name for path in (PROJECT / "examples").glob("*.py")} == {
        name for name, _ in parametrize.args[1]
    }


def test_readme(server: Server, tmp_path: Path) -> None:
    text = (PROJECT / "README.md").read_text()
    for name, code in re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(code)
    assert text.count("```python") == len(list(tmp_path.iterdir()))
    log = (tmp_path / "log").open("w+")
    command = re.search(r"^python -m scylla_pg (.*)$", text, re.MULTILINE)
    assert command
    worker = subprocess.Popen(
        [sys.executable, "-m", "scylla_pg", *command[1].split()],
        cwd=tmp_path,
        env={**os.environ, **server.environment},
        stderr=log,
    )
    try:
        assert run(server, "submit.py", cwd=tmp_path) == "sent to joe@example.com in de\n"
        run(server, "order.py", cwd=tmp_path)
        run(server, "traced.py", cwd=tmp_path)
        assert "1 passed" in run(server, "-m", "pytest", "test_mail.py", cwd=tmp_path)
        until(lambda: server.statuses("mail") == {"completed": 3})
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    log.seek(0)
    assert "serves" in log.read()
