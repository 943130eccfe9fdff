"""The peers' SQL, from the registries: downloaded once, checked, and loaded into the database."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .server import BenchError, Server, home

TIME_LIMIT = 120  # seconds, for a download


@dataclass(frozen=True)
class Package:
    """One release of a peer."""

    registry: str  # PyPI or npm
    name: str
    version: str
    file: str
    sha256: str


PGMQ = Package(
    "PyPI",
    "pgmq",
    "1.1.4",
    "pgmq-1.1.4-py3-none-any.whl",
    "4d9e7aa517295669d46a11d3d13106efbdc738d0e127d84c567b6d4c936e7d1d",
)
GRAPHILE = Package(
    "npm",
    "graphile-worker",
    "0.18.0",
    "graphile-worker-0.18.0.tgz",
    "f6eb86e15119e649a2c540bfc982aa17bc9072707950081729e95dfd0677a865",
)
PGBOSS = Package(
    "npm",
    "pg-boss",
    "12.38.0",
    "pg-boss-12.38.0.tgz",
    "68deba32a01ea95edde83b7ca51933921e66445c3098214e3e34876996a3000e",
)


def download_command(package: Package, folder: str) -> list[str]:
    """What fetches the package's file into a folder."""
    exact = f"{package.name}=={package.version}"
    if package.registry == "PyPI":
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        return [*pip, "--no-deps", "--only-binary", ":all:", "-d", folder, exact]
    npm = ["npm", "pack", "--silent", "--fetch-retries=1", "--ignore-scripts"]
    return [*npm, f"--pack-destination={folder}", exact.replace("==", "@")]


def run(command: list[str]) -> str:
    """Runs a command to its end. The error tells what it printed last."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIME_LIMIT)
    except FileNotFoundError:
        raise BenchError(f"{command[0]} is missing") from None
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[0]} did not answer within {TIME_LIMIT} s") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise BenchError(lines[-1][:200] if lines else f"{command[0]} failed")
    return done.stdout


def fetch(package: Package) -> Path:
    """The folder with the unpacked release; downloads it unless it is there."""
    cache = home() / "peers"
    unpacked = cache / package.file.removesuffix(".tgz").removesuffix(".whl")
    if unpacked.is_dir():
        return unpacked
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        run(download_command(package, folder))
        archive = Path(folder) / package.file
        if not archive.is_file():
            raise BenchError(f"{package.registry} gave another file than {package.file}")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != package.sha256:
            raise BenchError(f"{package.file} of {package.registry} is not the file that was pinned")
        new = Path(folder) / "new"
        shutil.unpack_archive(archive, new, "gztar" if archive.suffix == ".tgz" else "zip")
        shutil.move(new, unpacked)
    return unpacked


# ---- what each one's installer runs ----


def install_pgmq(server: Server) -> None:
    """pgmq install: one script."""
    server.sql((fetch(PGMQ) / "pgmq/sql/pgmq.sql").read_text(), "select pgmq.create('bench')")


def install_graphile(server: Server) -> None:
    """graphile-worker --schema-only: each migration in a transaction."""
    migrations = sorted((fetch(GRAPHILE) / "package/sql").glob("0*.sql"))
    server.sql(
        "create schema graphile_worker; create table graphile_worker.migrations"
        " (id int primary key, ts timestamptz default now() not null, breaking boolean not null default false)"
    )
    for migration in migrations:
        text = migration.read_text().replace(":GRAPHILE_WORKER_SCHEMA", "graphile_worker")
        server.sql(f"begin; {text};", "commit")
    server.sql("insert into graphile_worker._private_tasks (identifier) values ('bench')")


PLANS = """
import { create } from '{folder}/package/dist/plans.js';
import { readFileSync } from 'node:fs';
const { pgboss } = JSON.parse(readFileSync('{folder}/package/package.json'));
console.log(create('pgboss', pgboss.schema, { createSchema: true }));
"""


def install_pgboss(server: Server) -> None:
    """What start() and createQueue() run. Its own code says it, so Node.js is needed."""
    plans = PLANS.replace("{folder}", str(fetch(PGBOSS)))
    server.sql(run(["node", "--input-type=module", "-e", plans]))
    server.sql("""select pgboss.create_queue('bench', '{"policy": "standard"}')""")
