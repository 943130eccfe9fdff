#!/usr/bin/python3 -B
"""failover DIR: under load the primary is killed and its synchronous standby promoted.

Servers are made in DIR, and removed. This program watches the primary as a tool for failover does: when it has
not answered three times in a row, `pg_ctl promote`. Clients connect to both addresses and take the one that
is writable. Nothing that was acknowledged may be lost, no token may be honoured twice, and work resumes
within 15 s.

  SCYLLA_FAILOVERS=N   how often (1)

The last line is `failover: ok`.
"""
import collections
import os
import shutil
import sys
import threading
import time
import uuid

import psycopg
from load import connect, ended, eventually, faults, guarded, pg, place

FAILOVERS = int(os.environ.get("SCYLLA_FAILOVERS", "1"))
folder = sys.argv[1]
acknowledged, completed, tokens = set(), collections.Counter(), []
resumed = {"submit": [], "return": []}  # when calls began that were acknowledged
lock, draining = threading.Lock(), threading.Event()
servers = {}  # name: connection string


def addresses():
    parts = [dict(word.split("=", 1) for word in where.split()) for where in list(servers.values())]
    return ("dbname=postgres user=postgres target_session_attrs=read-write connect_timeout=2 "
            f"host={','.join(part['host'] for part in parts)} port={','.join(part['port'] for part in parts)}")


class Client:
    """A connection to the server that is writable, made again when it breaks."""

    def __init__(self):
        self.connection = None

    def ask(self, sql, *arguments):
        """The rows; None: refused, so an earlier attempt did it, or the lease is another's."""
        while True:
            try:
                if self.connection is None:
                    self.connection = connect(addresses())
                return self.connection.execute(sql, arguments).fetchall()
            except psycopg.Error as error:
                if error.sqlstate in ("23505", "55006", "P0002", "55000"):
                    return None
                if isinstance(error, psycopg.OperationalError) or error.sqlstate == "25006":
                    if self.connection is not None:
                        self.connection.close()
                    self.connection = None
                    time.sleep(0.1)
                else:
                    raise


def submit():
    client = Client()
    while not draining.is_set() and not ended.is_set():
        id, began = uuid.uuid4(), time.monotonic()
        client.ask("select scylla.submit('failover', id => %s)", id)
        with lock:
            acknowledged.add(id)
            resumed["submit"].append(began)


def work(number):
    client = Client()
    while not ended.is_set():
        for id, token in client.ask("select id, token from scylla.own_tasks(%s, 'failover', 5, timeout => '3 s')",
                                    f"w{number}") or []:
            began = time.monotonic()
            if client.ask("select scylla.return_task(%s, %s)", id, token):
                with lock:
                    completed[id] += 1
                    tokens.append((id, token))
                    resumed["return"].append(began)


def standby_of(primary, name):
    path = f"{folder}/{name}"
    os.mkdir(path, 0o700)
    if os.getuid() == 0:
        shutil.chown(path, "postgres")
    pg("run-as-server", f"{os.environ['SCYLLA_BIN']}/pg_basebackup", "-D", path, "-R", "-X", "stream", "-c", "fast",
       "-d", servers[primary] + " user=postgres")
    servers[name] = place(pg("start", path))
    with connect(servers[primary] + " user=postgres") as at:
        at.execute("alter system set synchronous_standby_names = '*'")
        at.execute("select pg_reload_conf()")
        eventually("the standby is synchronous", lambda: at.execute(
            "select count(*) from pg_stat_replication where sync_state = 'sync'").fetchone()[0] == 1)


def answers(name):
    try:
        with psycopg.connect(servers[name] + " user=postgres connect_timeout=1") as at:
            return at.execute("select 1").fetchone() == (1,)
    except psycopg.Error:
        return False


def fail_over(primary, standby):
    with lock:
        pg("kill", f"{folder}/{primary}")
        killed = time.monotonic()
    missed = 0
    while missed < 3:
        missed = 0 if answers(primary) else missed + 1
        time.sleep(0.5)
    pg("run-as-server", f"{os.environ['SCYLLA_BIN']}/pg_ctl", "promote", "-s", "-w", "-D", f"{folder}/{standby}")
    times = {}
    for what in resumed:
        eventually(f"{what} resumes", lambda: any(at > killed for at in list(resumed[what])), 15)
        times[what] = time.monotonic() - killed
    with lock:
        old = tokens[-200:]
    with connect(servers[standby] + " user=postgres") as at:
        for id, token in old:
            try:
                at.execute("select scylla.return_task(%s, %s)", (id, token))
                faults.append(f"a token of task {id} was honoured twice")
            except psycopg.Error as error:
                if error.sqlstate not in ("55000", "55006", "P0002"):
                    raise
    # It must not come back as it is: two servers would hand out the same tasks.
    del servers[primary]
    pg("remove", f"{folder}/{primary}")
    return times


longest = 0.0
servers["node0"] = place(pg("start", f"{folder}/node0", "fsync = off", "wal_keep_size = 256MB", "scylla.max_tries = 0"))
try:
    with connect(servers["node0"] + " user=postgres") as at:
        at.execute("create extension scylla")
    threads = [guarded(submit) for _ in range(2)]
    workers = [guarded(work, n) for n in range(4)]
    for n in range(FAILOVERS):
        standby_of(f"node{n}", f"node{n + 1}")
        time.sleep(1)
        times = fail_over(f"node{n}", f"node{n + 1}")
        longest = max(longest, *times.values())
        if faults:
            break
        time.sleep(0.5)
    draining.set()
    for thread in threads:
        thread.join()
    with connect(addresses()) as at:
        left = "select count(*) from scylla.task where queue = 'failover'"
        eventually("the rest is completed", lambda: faults or at.execute(left).fetchone()[0] == 0)
        ended.set()
        for thread in workers:
            thread.join()
        there = {row[0] for row in at.execute(
            "select id from scylla.tasks where queue = 'failover' and status = 'completed'").fetchall()}
finally:
    ended.set()
    for name in list(servers):
        pg("remove", f"{folder}/{name}")
lost = acknowledged - there
twice = [id for id, times in completed.items() if times > 1]
print(f"failover: {FAILOVERS} promotions; {len(acknowledged)} submissions acknowledged, {len(lost)} lost; "
      f"{sum(completed.values())} tokens honoured, {len(twice)} twice; work resumed after {longest:.1f} s at most")
if lost or twice or faults or not completed:
    sys.exit(f"failover: {faults[:3]}, lost {list(lost)[:3]}, twice {twice[:3]}")
print("failover: ok")
