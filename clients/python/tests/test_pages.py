"""The pages of docs/ with Python in them, followed as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, Server

PAGES = sorted(
    page.relative_to(REPOSITORY / "docs")
    for page in (REPOSITORY / "docs").rglob("*.md")
    if "\n```python\n" in page.read_text()
)


def test_there_are_pages() -> None:
    assert Path("tutorial/python.md") in PAGES


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_page(server: Server, tmp_path: Path, page: Path) -> None:
    name = "page_" + "".join(c if c.isalnum() else "_" for c in str(page))
    server.execute(f"create database {name}")
    environment = server.environment
    path = [str(Path(sys.executable).parent), environment["SCYLLA_BIN"], os.environ["PATH"]]
    done = subprocess.run(
        [REPOSITORY / "scripts/check/follow", "python", REPOSITORY / "docs" / page, tmp_path],
        env={**os.environ, **environment, "PGDATABASE": name, "PATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
    )
    server.execute(f"drop database {name} with (force)")
    assert done.returncode == 0, done.stdout
