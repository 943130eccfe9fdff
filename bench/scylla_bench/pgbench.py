"""Running pgbench and the driver, and reading what they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .server import REPO, BenchError, Server

SCRIPTS = REPO / "bench" / "script"
LATE = 60  # seconds, that a load may take longer than its own duration
LONGEST = 1800  # seconds, of a load without a duration


@dataclass(frozen=True)
class Load:
    """What pgbench is to run."""

    script: str | Sequence[str]  # such as scylla/work-1, or several with weights: scylla/work-1@3
    clients: int = 1
    seconds: int = 0  # or
    transactions: int = 0  # of each client
    rate: int = 0  # at most so many transactions per second
    define: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # of its sessions
    latencies: bool = False


@dataclass(frozen=True)
class Run:
    """What pgbench has done."""

    transactions: int
    tps: float
    latencies: list[float]  # in milliseconds, sorted; without what a transaction waited for its turn

    def percentile(self, share: float) -> float:
        """The latency in milliseconds that `share` of the transactions did not exceed."""
        return percentile(self.latencies, share)


class Running:
    """A pgbench in the background. Ends with the block that it was started for."""

    def __init__(self, server: Server, load: Load) -> None:
        self.server, self.load = server, load
        self.folder = tempfile.TemporaryDirectory(prefix="scylla-bench-")
        names = [load.script] if isinstance(load.script, str) else load.script
        files = [f"{SCRIPTS}/{script}.sql{at}{weight}" for script, at, weight in (n.partition("@") for n in names)]
        command = [server.program("pgbench"), "-n", "-M", "prepared"]
        command += [f"--file={file}" for file in files]
        command += ["-c", str(load.clients), "-j", str(min(load.clients, os.cpu_count() or 1))]
        command += ["-T", str(load.seconds)] if load.seconds else ["-t", str(load.transactions)]
        command += ["-R", str(load.rate)] if load.rate else []
        command += ["-l", f"--log-prefix={self.folder.name}/log"] if load.latencies else []
        define = {"begun": 0, "queue": "bench", "clients": load.clients, "pause": 1, "strict": 0, **load.define}
        command += [f"--define={name}={value}" for name, value in define.items()]
        options = " ".join(f"-c {name}={value}" for name, value in load.settings.items())
        self.process = subprocess.Popen(
            [*command, server.conninfo],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PGOPTIONS": options},
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def result(self) -> Run:
        """Waits for the end. A load that never ends is a fault of the system that is measured."""
        limit = self.load.seconds + LATE if self.load.seconds else LONGEST
        try:
            output, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.server.end_sessions()
            raise BenchError(f"{self.load.script} did not end within {limit} s") from None
        done = re.search(r"transactions actually processed: (\d+)", output)
        tps = re.search(r"^tps = ([0-9.]+) ", output, re.MULTILINE)
        if self.process.returncode != 0 or not done or not tps:
            errors = [line for line in output.splitlines() if "error" in line.lower()]
            reason = errors[0] if errors else output[-300:]
            raise BenchError(f"{self.load.script} failed: {reason}")
        return Run(int(done[1]), float(tps[1]), read_latencies(Path(self.folder.name)))


def run(server: Server, load: Load) -> Run:
    """Runs pgbench to its end."""
    with Running(server, load) as running:
        return running.result()


def read_latencies(folder: Path) -> list[float]:
    """From pgbench's logs: client, transaction, microseconds, script, time, its fraction, lag."""
    latencies = []
    for file in folder.glob("log.*"):
        for line in file.read_text().splitlines():
            cells = line.split()
            lag = float(cells[6]) if len(cells) > 6 else 0.0
            latencies.append((float(cells[2]) - lag) / 1000)
    return sorted(latencies)


def percentile(values: Sequence[float], share: float) -> float:
    """Of sorted values, the one that `share` of them do not exceed."""
    if not values:
        raise BenchError("nothing was measured")
    return values[min(int(len(values) * share), len(values) - 1)]


# ---- the driver in Rust: binary parameters, waiting, listening, the client's worker ----


def build_driver() -> Path:
    """Compiles bench/driver."""
    if not shutil.which("cargo"):
        raise BenchError("cargo is missing, so bench/driver cannot be built: see https://rustup.rs")
    # it is of the workspace of the client in Rust, apart from the extension
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "clients" / "rust"
    build = ["cargo", "build", "-q", "--locked", "--release", "-p", "driver", "--target-dir", str(target)]
    done = subprocess.run(build, cwd=REPO / "clients" / "rust", check=False)
    if done.returncode != 0:
        raise BenchError("bench/driver could not be built")
    return target / "release" / "driver"


def drive(server: Server, *arguments: object) -> list[float]:
    """Runs the driver to its end; returns the numbers that it prints."""
    done = subprocess.run(
        [build_driver(), server.conninfo, *(str(argument) for argument in arguments)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise BenchError(f"the driver failed: {done.stderr.strip()[:300]}")
    return [float(word) for word in done.stdout.split()]
