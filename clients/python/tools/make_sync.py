#!/usr/bin/env python3
"""make_sync: writes src/scylla_pg/client.py from async_client.py. With --check: only compares."""

import re
import subprocess
import sys
from pathlib import Path

package = Path(__file__).resolve().parent.parent / "src/scylla_pg"
WORDS = {
    "import asyncio\n": "",
    "async def": "def",
    "async with": "with",
    "await ": "",
    "asyncio.sleep": "time.sleep",
    "AsyncConnection": "Connection",
    "AsyncClient": "Client",
    "run_async": "run",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "The client for asyncio. `client.py` is made from this file by `tools/make_sync.py`.": (
        "The client. Made from `async_client.py` by `tools/make_sync.py`: change that file."
    ),
    "psycopg, asyncpg or SQLAlchemy, or a session.": "psycopg, SQLAlchemy or Django, or a session.",
}


def sync(text: str) -> str:
    for word, other in WORDS.items():
        assert word in text, word
        text = text.replace(word, other)
    # awaits in parentheses need these no more
    return re.sub(r"\((self\._run\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))\)\[", r"\1[", text)


made = subprocess.run(
    [sys.executable, "-m", "ruff", "format", "--stdin-filename", "client.py", "-"],
    input=sync((package / "async_client.py").read_text()),
    text=True,
    capture_output=True,
    check=True,
).stdout
target = package / "client.py"
if sys.argv[1:] == ["--check"]:
    if target.read_text() != made:
        sys.exit("make_sync: client.py is not what async_client.py makes: run tools/make_sync.py")
else:
    target.write_text(made)
