"""clients: submitters and workers that go on after a failover, and what they were told."""
import collections
import threading
import time
import uuid

import psycopg
from load import connect, ended, eventually, faults, guarded

GONE = ("55000", "55006", "P0002")  # a token that is not valid any more


class Client:
    """A connection to the server that is writable, made again when it breaks."""

    def __init__(self, address):
        self.address, self.connection = address, None

    def ask(self, sql, *arguments):
        """The rows; None: refused, so an earlier attempt did it, or the lease is another's."""
        while True:
            try:
                if self.connection is None:
                    self.connection = connect(self.address())
                return self.connection.execute(sql, arguments).fetchall()
            except psycopg.Error as error:
                if error.sqlstate in ("23505", *GONE):
                    return None
                if isinstance(error, psycopg.OperationalError) or error.sqlstate == "25006":
                    if self.connection is not None:
                        self.connection.close()
                    self.connection = None
                    time.sleep(0.1)
                else:
                    raise


class Clients:
    """Two submitters and four workers, which take the addresses in turns: functions that return one."""

    def __init__(self, *addresses):
        self.addresses = addresses
        self.acknowledged, self.completed, self.tokens = set(), collections.Counter(), []
        self.began = {"submit": [], "return": []}  # when calls began that were acknowledged
        self.lock, self.draining, self.longest = threading.Lock(), threading.Event(), 0.0

    def client(self, number):
        return Client(self.addresses[number % len(self.addresses)])

    def start(self):
        self.submitters = [guarded(self.submit, n) for n in range(2)]
        self.workers = [guarded(self.work, n) for n in range(4)]

    def submit(self, number):
        client = self.client(number)
        while not self.draining.is_set() and not ended.is_set():
            id, began = uuid.uuid4(), time.monotonic()
            client.ask("select scylla.submit('failover', id => %s)", id)
            with self.lock:
                self.acknowledged.add(id)
                self.began["submit"].append(began)

    def work(self, number):
        client = self.client(number)
        while not ended.is_set():
            for id, token in client.ask("select id, token from scylla.own_tasks(%s, 'failover', 5, timeout => '3 s')",
                                        f"w{number}") or []:
                began = time.monotonic()
                if client.ask("select scylla.return_task(%s, %s)", id, token):
                    with self.lock:
                        self.completed[id] += 1
                        self.tokens.append((id, token))
                        self.began["return"].append(began)

    def resume(self, killed, within):
        """Waits until calls that began since then were acknowledged; how long each kind took."""
        times = {}
        for what, began in self.began.items():
            eventually(f"{what} resumes", lambda: any(at > killed for at in began[-1000:]), within)
            times[what] = time.monotonic() - killed
        self.longest = max(self.longest, *times.values())
        return times

    def try_old_tokens(self, where):
        """Tokens that were honoured before must not be again."""
        with self.lock:
            old = self.tokens[-200:]
        with connect(where) as at:
            for id, token in old:
                try:
                    at.execute("select scylla.return_task(%s, %s)", (id, token))
                    faults.append(f"a token of task {id} was honoured twice")
                except psycopg.Error as error:
                    if error.sqlstate not in GONE:
                        raise

    def finish(self):
        """Lets the workers complete what is there. Tasks that are lost, and those that were completed twice."""
        self.draining.set()
        for thread in self.submitters:
            thread.join()
        with connect(self.addresses[0]()) as at:
            left = "select count(*) from scylla.task where queue = 'failover'"
            eventually("the rest is completed", lambda: faults or at.execute(left).fetchone()[0] == 0)
            self.stop()
            there = {row[0] for row in at.execute(
                "select id from scylla.tasks where queue = 'failover' and status = 'completed'").fetchall()}
        return self.acknowledged - there, [id for id, times in self.completed.items() if times > 1]

    def stop(self):
        ended.set()
        for thread in self.submitters + self.workers:
            thread.join()
