#!/usr/bin/python3 -B
"""failover DIR: under load the primary is killed and its synchronous standby promoted.

Servers are made in DIR, and removed. This program watches the primary as a tool for failover does: when it has
not answered three times in a row, `pg_ctl promote`. Clients connect to both addresses and take the one that
is writable. Nothing that was acknowledged may be lost, no token may be honoured twice, and work resumes
within 15 s.

  SCYLLA_FAILOVERS=N   how often (1)

The last line is `failover: ok`.
"""
import os
import shutil
import sys
import time

import psycopg
from clients import Clients
from load import connect, ended, eventually, faults, pg, place

FAILOVERS = int(os.environ.get("SCYLLA_FAILOVERS", "1"))
folder = sys.argv[1]
servers = {}  # name: connection string


def addresses():
    parts = [dict(word.split("=", 1) for word in where.split()) for where in list(servers.values())]
    return ("dbname=postgres user=postgres target_session_attrs=read-write connect_timeout=2 "
            f"host={','.join(part['host'] for part in parts)} port={','.join(part['port'] for part in parts)}")


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
    with clients.lock:
        pg("kill", f"{folder}/{primary}")
        killed = time.monotonic()
    missed = 0
    while missed < 3:
        missed = 0 if answers(primary) else missed + 1
        time.sleep(0.5)
    pg("run-as-server", f"{os.environ['SCYLLA_BIN']}/pg_ctl", "promote", "-s", "-w", "-D", f"{folder}/{standby}")
    clients.resume(killed, 15)
    clients.try_old_tokens(servers[standby] + " user=postgres")
    # It must not come back as it is: two servers would hand out the same tasks.
    del servers[primary]
    pg("remove", f"{folder}/{primary}")


clients = Clients(addresses)
servers["node0"] = place(pg("start", f"{folder}/node0", "fsync = off", "wal_keep_size = 256MB", "scylla.max_tries = 0"))
try:
    with connect(servers["node0"] + " user=postgres") as at:
        at.execute("create extension scylla")
    clients.start()
    for n in range(FAILOVERS):
        standby_of(f"node{n}", f"node{n + 1}")
        time.sleep(1)
        fail_over(f"node{n}", f"node{n + 1}")
        if faults:
            break
        time.sleep(0.5)
    lost, twice = clients.finish()
finally:
    ended.set()
    for name in list(servers):
        pg("remove", f"{folder}/{name}")
print(f"failover: {FAILOVERS} promotions; {len(clients.acknowledged)} submissions acknowledged, {len(lost)} lost; "
      f"{sum(clients.completed.values())} tokens honoured, {len(twice)} twice; "
      f"work resumed after {clients.longest:.1f} s at most")
if lost or twice or faults or not clients.completed:
    sys.exit(f"failover: {faults[:3]}, lost {list(lost)[:3]}, twice {twice[:3]}")
print("failover: ok")
