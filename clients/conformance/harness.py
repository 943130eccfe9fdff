"""Runs scenarios.toml with the drivers of all clients, and prints a table: scenarios x clients.

Each step of a scenario is done for all clients before the next one begins: they share its server.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PG = REPOSITORY / "scripts/pg"
LONG = os.environ.get("SCYLLA_LONG") == "1"
POOLER = os.environ.get("SCYLLA_PGBOUNCER") or shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
SERVER_LINES = (
    "scylla.board_size = 16384", "fsync = off", "max_connections = 300", "max_worker_processes = 30",
    "log_line_prefix = '[%a] '", "log_statement = 'all'",
)  # fmt: skip


class Failed(Exception):
    """What must hold does not."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        words = shlex.split(self._pg("start", *SERVER_LINES))
        environment = dict(word.split("=", 1) for word in words if "=" in word)
        self.port = int(environment["PGPORT"].rstrip(";"))
        self.user, self.database = (environment[name].rstrip(";") for name in ("PGUSER", "PGDATABASE"))
        self._bin = environment["SCYLLA_BIN"].rstrip(";")
        self._standby: Path | None = None
        self._ports = [self.port]
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("create extension scylla")
        self._frozen: list[int] = []

    def url(self, port: int | None = None) -> str:
        hosts = ",".join(f"127.0.0.1:{it}" for it in ([port] if port else self._ports))
        attributes = "?target_session_attrs=read-write" if len(self._ports) > 1 else ""
        return f"postgresql://{self.user}@{hosts}/{self.database}{attributes}"

    def _pg(self, command: str, *arguments: str, folder: Path | None = None) -> str:
        done = subprocess.run([PG, command, folder or self.folder, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"scripts/pg {command}: {done.stderr}")
        return done.stdout

    def _stand_by(self) -> None:
        """A standby that has what the server has committed."""
        self._standby = self.folder.with_name(f"{self.folder.name}-standby")
        reach = ["-h", "127.0.0.1", "-p", str(self.port), "-U", self.user]
        copy = [f"{self._bin}/pg_basebackup", *reach, "-D", str(self._standby), "-R", "-N", "-c", "fast"]
        subprocess.run([PG, "run-as-server", *copy], check=True, capture_output=True)
        told = self._pg("start", folder=self._standby)
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = '*'")
            connection.execute("select pg_reload_conf()")
            end = time.monotonic() + 20
            while connection.execute("select count(*) from pg_stat_replication where sync_state = 'sync'").fetchone() != (1,):
                if time.monotonic() > end:
                    raise RuntimeError("the standby does not follow")
                time.sleep(0.05)
        self._ports.append(int(re.search(r"PGPORT=(\d+)", told)[1]))

    def _fail_over(self) -> None:
        self._pg("stop", "immediate")
        self.port = self._ports[-1]
        with psycopg.connect(f"postgresql://{self.user}@127.0.0.1:{self.port}/{self.database}", autocommit=True) as standby:
            standby.execute("select pg_promote()")

    def do(self, what: str) -> None:
        match what:
            case "stop":
                self._pg("stop", "immediate")
            case "start":
                self._pg("restart")
            case "freeze":
                postmaster = int((self.folder / "postmaster.pid").read_text().split()[0])
                self._frozen = [postmaster]
                os.kill(postmaster, signal.SIGSTOP)  # no more children from here on
                for status in Path("/proc").glob("[0-9]*/status"):
                    with suppress(ProcessLookupError, FileNotFoundError):
                        if f"\nPPid:\t{postmaster}\n" in status.read_text():
                            self._frozen.append(int(status.parent.name))
                            os.kill(self._frozen[-1], signal.SIGSTOP)
            case "thaw":
                self.thaw()
            case "standby":
                self._stand_by()
            case "fail over":
                self._fail_over()
            case _:
                raise ValueError(f"server = {what!r}")

    def thaw(self) -> None:
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._frozen = []

    def remove(self) -> None:
        self.thaw()
        for folder in (self._standby, self.folder):
            if folder is not None:
                self._pg("remove", folder=folder)


class Pooler:
    """PgBouncer in transaction mode."""

    def __init__(self, server: Server) -> None:
        if POOLER is None:
            raise RuntimeError("there is no pgbouncer: scripts/pg deps pgbouncer")
        self.port = free_port()
        config = server.folder.parent / f"pgbouncer-{self.port}.ini"
        config.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port} user={server.user}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\ndefault_pool_size = 40\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        self._process = subprocess.Popen(
            [PG, "run-as-server", POOLER, config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it is a child of the script
        )
        end = time.monotonic() + 20
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > end:
                raise RuntimeError("pgbouncer does not start")
            time.sleep(0.05)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(20)


class Proxy:
    """Passes bytes on. In the place of an answer that is to be lost, the connection ends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._left = 0
        self._answers = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, answers: int) -> None:
        with self._lock:
            self._left = answers

    @property
    def left(self) -> int:
        return self._left

    def _is_lost(self) -> bool:
        with self._lock:
            self._answers += 1
            lost = self._left > 0 and self._answers % 4 == 0
            self._left -= lost
            return lost

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server.port))
                for source, target, answers in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, target, answers), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while (data := source.recv(65536)) and not (answers and self._is_lost()):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


class Driver:
    """A driver process. `wrong` makes it one that errs: see README.md."""

    def __init__(self, command: list[str], url: str, wrong: dict[str, Any], log: Path) -> None:
        self.wrong = wrong
        self.erred = False  # the fault has happened
        self.events: list[dict[str, Any]] = []
        self.torn = False  # frozen or killed: what it says of its handlers proves nothing
        self.worker = ""
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._number = 0
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [*command, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "id" in message:
                self._answers[message["id"]].put(message)
                continue
            wrong = self.wrong if self.wrong.get("event") == message.get("event") else {}
            self.erred |= bool(wrong)
            if wrong.get("signal"):
                self.kill(wrong["signal"])
            if wrong.get("lost"):
                continue
            message.update(wrong.get("set", {}))
            self._note({**message, "at": time.monotonic() + wrong.get("late", 0)})
        self._note({"event": "exit", "status": self.process.wait(), "at": time.monotonic()})

    def _note(self, event: dict[str, Any]) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def ask(self, command: dict[str, Any], seconds: float) -> dict[str, Any]:
        wrong = self.wrong if self.wrong.get("command") == command["do"] else {}
        self.erred |= bool(wrong)
        command = {**command, **wrong.get("set", {})}
        if "options" in command:
            command["options"] = {k: v for k, v in command["options"].items() if k not in wrong.get("without", [])}
        if wrong.get("lost"):
            return {}
        self._number += 1
        number = self._number
        # before it is asked: the thread that reads may be quick
        answers = self._answers[number] = queue.Queue()
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"id": number, **command}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"it has ended, and does no {command['do']}") from None
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise Failed(f"no answer to {command['do']} within {seconds:g} s") from None
        return {**answer, **wrong.get("answer", {})}

    def kill(self, name: str) -> None:
        self.torn |= name in ("STOP", "KILL")
        self.process.send_signal(getattr(signal, f"SIG{name}"))

    def signal(self, name: str) -> None:
        wrong = self.wrong.get("signal") == name and "event" not in self.wrong and "server" not in self.wrong
        self.erred |= wrong
        self.kill(self.wrong["instead"] if wrong else name)

    def expect(self, matches: Any, times: int, seconds: float) -> list[dict[str, Any]]:
        end = time.monotonic() + seconds
        with self._changed:
            while len(found := [event for event in self.events if matches(event)]) < times:
                if not self._changed.wait(end - time.monotonic()):
                    break
            return found

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self._log.close()


class Cell:
    """One scenario with one client."""

    def __init__(self, run: Run, client: str, command: list[str]) -> None:
        self.run, self.client, self.command = run, client, command
        self.queue = f"s{run.scenario['number']}-{client}{'-wrong' if run.wrong else ''}"
        self.queues = {self.queue}
        self.drivers: dict[str, Driver] = {}
        self.values: dict[str, Any] = {"queue": self.queue}
        self.failure = ""
        self.broke = False  # the failure is one of the harness, and shows nothing of the client
        self._over = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def patience(self) -> float:
        return (4 if self.run.wrong else 40) + self.run.scenario.get("slow", 0)

    def queue_of(self, number: int) -> str:
        name = f"{self.queue}-{number}" if number else self.queue
        self.queues.add(name)
        return name

    def driver(self, name: str) -> Driver:
        if name not in self.drivers:
            wrong = self.run.scenario["wrong"] if self.run.wrong else {}
            wrong = wrong if wrong.get("of", name) == name else {}
            log = self.run.folder / f"{self.queue}.log"
            self.drivers[name] = Driver(self.command, self.run.url(), wrong, log)
        return self.drivers[name]

    def sql(self, text: str) -> Any:
        """The first value of the first row."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.run.server.url(), autocommit=True)
        cursor = self._connection.execute(text, self.values)  # type: ignore[arg-type]
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    # ---- steps: the first member of a step is its name ----

    def step(self, step: dict[str, Any]) -> None:
        step = {name: self.run.variable(value) for name, value in step.items()}
        verb, value = next(iter(step.items()))
        getattr(self, f"do_{verb}")(value, **{k: v for k, v in step.items() if k != verb})

    def do_work(self, name: str, queues: int = 1, **options: Any) -> None:
        names = [self.queue_of(n) for n in range(queues)]
        worker = f"{self.queue}-{name}"
        driver = self.driver(name)
        driver.worker = self.values[name] = worker
        driver.ask({"do": "work", "name": worker, "queues": names, **options}, self.patience)
        for _ in range(driver.wrong.get("connections", 0)):
            driver.erred = True
            threading.Thread(target=self._chatter, args=(worker,), daemon=True).start()

    def _chatter(self, worker: str) -> None:
        """A connection that the worker should not have, with a statement every 0.2 s."""
        with psycopg.connect(self.run.server.url(), autocommit=True, application_name=f"scylla-pg {worker}") as one:
            while not self._over.wait(0.2):
                one.execute("select 1")

    def do_submit(
        self, count: int, name: str = "t", at: str = "a", fails: str = "", queue: int = 0, **rest: Any
    ) -> None:
        command = {"do": "submit", "queue": self.queue_of(queue), "count": count, **rest}
        command = {"action": "work", "spec": {}, "options": {}, **command}
        if isinstance(command["spec"], dict) and "times" in command["spec"]:  # a long text
            command["spec"] = {"value": "x" * command["spec"]["times"]}
        answer = self.driver(at).ask(command, self.patience + 60)
        if fails:
            if answer.get("sqlstate", "") != fails and not (fails == "22P05" and "error" in answer):
                raise Failed(f"submit gave {answer}, not {fails}")
            return
        if len(answer.get("tasks", [])) != count:
            raise Failed(f"submit gave {answer}")
        self.values[f"all_{name}"] = answer["tasks"]
        self.values[name] = answer["tasks"][0]

    def do_result(self, name: str, equal: Any, at: str = "a") -> None:
        answer = self.driver(at).ask({"do": "result", "task": self.values[name]}, self.patience)
        if answer.get("value") != equal:
            raise Failed(f"the result is {answer}, not {equal!r}")

    def do_expect(
        self, event: str, of: str = "a", times: int = 1, within: float = 0, task: str = "", **members: Any
    ) -> None:
        if task:
            members["task"] = self.values[task]

        def matches(it: dict[str, Any]) -> bool:
            return it["event"] == event and all(it.get(name) == value for name, value in members.items())

        found = self.driver(of).expect(matches, times, min(within or self.patience, self.patience))
        if len(found) < times:
            raise Failed(f"{of} said {event} {members or ''} {len(found)} times, not {times}")

    def do_never(self, event: str, of: str = "a") -> None:
        if found := [it for it in self.driver(of).events if it["event"] == event]:
            raise Failed(f"{of} said {found[0]}")

    def do_most(self, running: int, of: str = "a") -> None:
        """How many handlers ran at once: so many, and not one more."""
        now = most = 0
        for event in self.driver(of).events:
            now += {"begin": 1, "end": -1, "stopped": -1}.get(event["event"], 0)
            most = max(most, now)
        if most != running:
            raise Failed(f"{most} handlers ran at once, not {running}")

    def do_order(self, names: list[str], of: str = "a") -> None:
        known = {value: name for name, value in self.values.items() if isinstance(value, str)}
        begun = [known.get(it["task"], "?") for it in self.driver(of).events if it["event"] == "begin"]
        begun = [name for name in begun if name in {*names, "?"}]
        if begun != names:
            raise Failed(f"they ran in the order {begun}")

    def do_signal(self, name: str, to: str = "a") -> None:
        self.driver(to).signal(name)

    def do_sql(self, text: str) -> None:
        self.sql(text)

    def do_check(self, what: str, sql: str, equal: Any, within: float = 0) -> None:
        end = time.monotonic() + (within or self.patience)
        while (value := self.sql(sql)) != equal:
            if time.monotonic() > end:
                raise Failed(f"{what}: {value!r}, not {equal!r}")
            time.sleep(0.05)

    def do_stop_by(self, function: str, times: int, within: float, of: str = "a") -> None:
        """Ends running tasks one by one. The median of the times until their handlers know."""
        driver, took = self.driver(of), []
        begun = driver.expect(lambda it: it["event"] == "begin", times, self.patience)
        if len(begun) < times:
            raise Failed(f"{len(begun)} tasks run, not {times}")
        for task in [event["task"] for event in begun[:times]]:
            self.values["task"] = task
            self.sql(f"select scylla.{function}")
            since = time.monotonic()
            wanted = {"event": "stopped", "task": task, "cause": "Cancelled"}
            heard = driver.expect(lambda it, wanted=wanted: wanted.items() <= it.items(), 1, self.patience)
            if not heard:
                raise Failed("a handler was not told")
            took.append(heard[0]["at"] - since)
        median = sorted(took)[times // 2]
        if median > within:
            raise Failed(f"heard after {median:.3f} s, not {within} s")

    def do_idle(self, seconds: float, of: str = "a") -> None:
        """An idle worker sends one statement for each wait of 30 seconds, and nothing else."""
        mark = f"{self.driver(of).worker}]"

        def sent() -> int:
            lines = (self.run.server.folder / "server.log").read_text(errors="replace").splitlines()
            return sum(mark in line and re.search("statement:|execute", line) is not None for line in lines)

        self.do_check("the worker waits", _WAITS, 1)
        time.sleep(0.5)
        before = sent()
        time.sleep(seconds)
        if not 0 < before or sent() - before > 1 + seconds // 30:
            raise Failed(f"{sent() - before} statements within {seconds} s, {before} before")

    def do_connections(self, most: int, of: str = "a") -> None:
        self.values["mark"] = "%" + self.driver(of).worker
        seen = 0
        for _ in range(30):
            seen = max(seen, self.sql(_CONNECTIONS))
            time.sleep(0.02)
        if not 0 < seen <= most:
            raise Failed(f"{seen} connections, at most {most} are allowed")

    def do_terminate(self, of: str) -> None:
        self.values["mark"] = "%" + self.driver(of).worker
        self.sql(_TERMINATE)

    def do_lose(self, answers: int) -> None:
        assert isinstance(self.run.way, Proxy)
        self.run.way.lose(answers)

    def do_lost(self, answers: int) -> None:
        assert isinstance(self.run.way, Proxy)
        if self.run.way.left != answers:
            raise Failed(f"{self.run.way.left} answers have not been lost")

    # ---- what holds after each scenario ----

    def account(self) -> None:
        """No task that is over ran more often than it was owned, none in two places within a lease."""
        self.values["queues"] = list(self.queues)
        owned = self.sql(_OWNED) or {}
        begun: dict[str, list[tuple[float, Driver]]] = defaultdict(list)
        for driver in self.drivers.values():
            for event in driver.events:
                if event["event"] == "begin":
                    begun[event["task"]].append((event["at"], driver))
        crashes = self.run.crashes
        for task, times in begun.items():
            if task in owned and len(times) > owned[task] + crashes:
                raise Failed(f"task {task} was owned {owned[task]} times, and ran {len(times)} times")
            times.sort(key=lambda it: it[0])
            for (_, before), (at, _) in zip(times, times[1:], strict=False):
                over = [it for it in before.events if it.get("task") == task and it["event"] in ("end", "stopped")]
                if not (crashes or before.torn or any(it["at"] <= at + 0.05 for it in over)):
                    raise Failed(f"task {task} ran twice at once")

    def found_out(self) -> bool:
        """Whether a wrong driver has erred, and a check of the scenario has seen it."""
        return bool(self.failure) and not self.broke and any(driver.erred for driver in self.drivers.values())

    def close(self) -> None:
        self._over.set()
        for driver in self.drivers.values():
            driver.close()
        if self._connection is not None:
            self._connection.close()


_CONNECTIONS = "select count(*)::int from pg_stat_activity where application_name like %(mark)s"
_TERMINATE = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like %(mark)s"
_WAITS = """select count(*)::int from pg_stat_activity
    where application_name like '%%' || %(a)s and query like '%%wait_for_event%%' and state = 'active'"""
_OWNED = """select jsonb_object_agg(id, (select count(*) from jsonb_array_elements(history) e
    where e->>'_typ' = 'TaskAssignment')) from scylla.tasks where queue = any(%(queues)s)
    and status in ('completed', 'aborted', 'cancelled')"""


class Run:
    """One scenario with all clients."""

    def __init__(
        self, scenario: dict[str, Any], clients: dict[str, list[str]], shared: Server, folder: Path, wrong: bool
    ) -> None:
        self.scenario, self.folder, self.wrong = scenario, folder, wrong
        self._variables = {**scenario.get("short", {}), **(scenario.get("long", {}) if LONG else {})}
        self.crashes = sum(step.get("server") in ("stop", "fail over") for step in scenario["steps"])
        self.server = shared
        self._own = any("server" in step for step in scenario["steps"]) or scenario.get("own_server", False)
        self.way: Pooler | Proxy | None = None
        self.cells = [Cell(self, client, command) for client, command in clients.items()]

    def variable(self, value: Any) -> Any:
        return self._variables[value[1:]] if isinstance(value, str) and value.startswith("$") else value

    def url(self) -> str:
        return self.server.url(self.way.port if self.way else None)

    def _each(self, work: Any) -> None:
        def guarded(cell: Cell) -> None:
            try:
                work(cell)
            except Failed as error:
                cell.failure = str(error)
            except Exception as error:  # of the driver, or of the harness: it is said in the table
                cell.broke = True
                cell.failure = f"{type(error).__name__}: {error}"

        left = [cell for cell in self.cells if not cell.failure]
        with ThreadPoolExecutor(max(1, len(left))) as pool:
            list(pool.map(guarded, left))

    def _server_step(self, what: str) -> None:
        for cell in self.cells:
            for driver in cell.drivers.values():
                if driver.wrong.get("server") == what:
                    driver.erred = True
                    driver.kill(driver.wrong["signal"])
        self.server.do(what)

    def run(self) -> None:
        number = f"{self.scenario['number']}{'-wrong' if self.wrong else ''}"
        try:
            if self._own:
                self.server = Server(self.folder / f"server-{number}")
            through = self.scenario.get("through")
            self.way = {"pgbouncer": Pooler, "proxy": Proxy}[through](self.server) if through else None
            for step in self.scenario["steps"]:
                if "server" in step:
                    self._server_step(step["server"])
                elif "pause" in step:
                    time.sleep(self.variable(step["pause"]))
                else:
                    self._each(lambda cell, step=step: cell.step(step))
            self._each(lambda cell: cell.account())
        except Exception as error:
            for cell in self.cells:
                cell.broke |= not cell.failure
                cell.failure = cell.failure or f"{type(error).__name__}: {error}"
        finally:
            for cell in self.cells:
                cell.close()
            if self.way:
                self.way.close()
            if self._own and self.server.folder.name == f"server-{number}":
                self.server.remove()


def drivers(names: list[str]) -> dict[str, list[str]]:
    """How to start the driver of each client: `test --driver` builds it and prints the words."""
    found = [path.parent.name for path in sorted(HERE.parent.glob("*/test")) if path.parent != HERE]
    if unknown := set(names) - set(found):
        raise SystemExit(f"conformance: there is no client {', '.join(sorted(unknown))}")
    commands = {}
    for client in names or found:
        done = subprocess.run([HERE.parent / client / "test", "--driver"], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0 or not done.stdout:
            raise SystemExit(f"conformance: no driver of {client}")
        commands[client] = done.stdout.splitlines()
    return commands


def table(runs: list[Run], clients: list[str], good: str, bad: str) -> int:
    width = max(len(run.scenario["name"]) for run in runs) + 6
    print(f"{'':{width}}" + "".join(f"{client:12}" for client in clients))
    failed, group = 0, ""
    for run in runs:
        if run.scenario["group"] != group:
            group = run.scenario["group"]
            print(group)
        cells = dict.fromkeys(clients, "")
        for cell in run.cells:
            is_good = cell.found_out() if run.wrong else not cell.failure
            failed += not is_good
            cells[cell.client] = good if is_good else bad
        line = "".join(f"{words:12}" for words in cells.values())
        print(f"{run.scenario['number']:3} {run.scenario['name']:{width - 4}}{line}")
    for run in runs:
        for cell in run.cells:
            if run.wrong and not cell.found_out():
                print(f"MISSED {cell.client} {run.scenario['number']}: {cell.failure or 'nothing was seen'}")
            elif cell.failure and not run.wrong:
                print(f"FAILED {cell.client} {run.scenario['number']}: {cell.failure}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="test", description=__doc__)
    parser.add_argument("--client", action="append", default=[], help="a folder of clients/; by default all")
    parser.add_argument("--wrong", action="store_true", help="only with the drivers that are wrong")
    parser.add_argument("--right", action="store_true", help="only with the drivers as they are")
    parser.add_argument("--why", action="store_true", help="say how each wrong driver was found out")
    parser.add_argument("--jobs", type=int, default=8, help="how many scenarios run at once")
    parser.add_argument("number", nargs="*", type=int, help="scenarios; by default all")
    arguments = parser.parse_args()
    known = tomllib.loads((HERE / "scenarios.toml").read_text())["scenario"]
    if unknown := set(arguments.number) - {scenario["number"] for scenario in known}:
        parser.error(f"there is no scenario {min(unknown)}")
    chosen = [it for it in known if not arguments.number or it["number"] in arguments.number]
    clients = drivers(arguments.client)
    folder = Path(tempfile.mkdtemp(prefix="scylla-conformance.", dir="/var/tmp"))
    folder.chmod(0o1777)  # the server's user makes its clusters there
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server, since, total, failed = None, time.monotonic(), 0, 0
    try:
        server = Server(folder / "server")
        for wrong in (False, True):
            if (wrong and arguments.right) or (not wrong and arguments.wrong):
                continue
            runs = []
            for scenario in chosen:
                served = clients
                if wrong and not (LONG or arguments.wrong):  # in the short form each with one client, in turns
                    client = list(clients)[scenario["number"] % len(clients)]
                    served = {client: clients[client]}
                runs.append(Run(scenario, served, server, folder, wrong))
            with ThreadPoolExecutor(arguments.jobs) as pool:
                # the slow ones first
                list(pool.map(Run.run, sorted(runs, key=lambda run: not run.server or -len(str(run.scenario)))))
            total += sum(len(run.cells) for run in runs)
            print("\nDrivers that are wrong on purpose: each has to be found out" if wrong else "")
            failed += table(runs, list(clients), *(("found out", "MISSED") if wrong else ("ok", "FAILED")))
            if wrong and arguments.why:
                for run in runs:
                    for cell in run.cells:
                        print(f"{cell.client} {run.scenario['number']}: {cell.failure}")
    finally:
        if server is not None:
            server.remove()
        if failed:
            print(f"the drivers' errors are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"took {time.monotonic() - since:.0f} s")
    print(f"conformance: {total - failed} passed, {failed} failed")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
