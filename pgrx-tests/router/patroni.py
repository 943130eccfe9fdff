#!/usr/bin/python3 -B
"""patroni DIR: three servers under Patroni with etcd are failed over under load, synchronously and not.

The programs are Debian's packages, unpacked and not installed. Half of the clients connect to a list of hosts,
half through HAProxy, which asks Patroni who the primary is. Each second time the whole machine of the
primary dies, its Patroni too; in between only PostgreSQL does. Patroni makes the old primary a standby again.
With a synchronous standby nothing that was acknowledged may be lost, no token be honoured twice, and
work resumes within 15 s. Without one, what was lost is printed. A lease that the table had goes on in both.

  SCYLLA_FAILOVERS=N   how often, synchronously (2); a quarter of that without

The last line is `patroni: ok`.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from clients import Clients
from load import connect, ended, eventually, faults, pg

FAILOVERS = int(os.environ.get("SCYLLA_FAILOVERS", "2"))
PACKAGES = ("patroni python3-etcd python3-psycopg2 python3-prettytable python3-wcwidth python3-psutil python3-cdiff "
            "python3-dnspython python3-click python3-colorama python3-dateutil python3-six python3-yaml "
            "python3-urllib3 python3-pkg-resources etcd-server haproxy liblua5.3-0 libopentracing-c-wrapper0 "
            "libopentracing1").split()
NODES = ("node0", "node1", "node2")

folder = f"{sys.argv[1]}/patroni"
usr = pg("unpack", *PACKAGES).strip()
env = {**os.environ, "PYTHONPATH": f"{usr}/lib/python3/dist-packages", "HOME": folder,
       "LD_LIBRARY_PATH": f"{usr}/lib/x86_64-linux-gnu:{usr}/lib/aarch64-linux-gnu"}
processes = {}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def run(name, *command):
    """A process in the background, of the servers' user; its output goes to a file."""
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    with open(f"{folder}/{name}.log", "ab") as log:
        processes[name] = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log, **user)


def write(name, text):
    with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
        file.write(text)


class Cluster:
    """etcd, HAProxy, and three servers with a Patroni each."""

    def __init__(self, synchronous):
        etcd, peer, self.entrance, *ports = free_ports(3 + 2 * len(NODES))
        self.ports, self.rest = dict(zip(NODES, ports)), dict(zip(NODES, ports[len(NODES):]))
        run("etcd", f"{usr}/bin/etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls",
            f"http://127.0.0.1:{etcd}", "--advertise-client-urls", f"http://127.0.0.1:{etcd}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync")
        for node in NODES:
            write(f"{node}.yml", json.dumps({  # which is YAML, too
                "scope": "scylla", "name": node, "restapi": {"listen": f"127.0.0.1:{self.rest[node]}"},
                "etcd3": {"host": f"127.0.0.1:{etcd}"},
                "bootstrap": {
                    "dcs": {"ttl": 8, "loop_wait": 1, "retry_timeout": 3, "primary_start_timeout": 0,
                            "synchronous_mode": synchronous,
                            "postgresql": {"use_pg_rewind": True, "parameters": {
                                "shared_preload_libraries": "scylla", "wal_log_hints": "on",
                                "wal_keep_size": "256MB", "scylla.max_tries": 0,
                                "scylla.persist_leases_after": "1s"}}},
                    "initdb": [{"auth": "trust"}, {"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "no-sync"]},
                "postgresql": {
                    "listen": f"127.0.0.1:{self.ports[node]}", "data_dir": f"{folder}/{node}",
                    "bin_dir": os.environ["SCYLLA_BIN"], "pgpass": f"{folder}/{node}.pgpass",
                    "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
                    "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
                    "parameters": {"unix_socket_directories": "", "fsync": "off"}}}))
            self.start(node)
        servers = "".join(f" server {node} 127.0.0.1:{self.ports[node]} check port {self.rest[node]}\n"
                          for node in NODES)
        write("haproxy.cfg", f"""global
 maxconn 200
defaults
 mode tcp
 timeout connect 2s
 timeout client 30m
 timeout server 30m
listen primary
 bind 127.0.0.1:{self.entrance}
 option httpchk OPTIONS /primary
 default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}""")
        run("haproxy", f"{usr}/sbin/haproxy", "-db", "-f", f"{folder}/haproxy.cfg")
        self.synchronous = synchronous

    def start(self, node):
        run(node, sys.executable, f"{usr}/bin/patroni", f"{folder}/{node}.yml")

    def members(self):
        """What the first Patroni that answers says: role and state of each."""
        for node in NODES:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.rest[node]}/cluster", timeout=2) as answer:
                    return {it["name"]: it for it in json.load(answer)["members"]}
            except (OSError, ValueError):
                pass
        return {}

    def leader(self):
        return next((name for name, it in self.members().items()
                     if it["role"] == "leader" and it["state"] == "running"), None)

    def is_whole(self):
        """A primary and two standbys that follow it; one of them synchronously."""
        members = self.members().values()
        roles = sorted(it["role"] for it in members if it["state"] in ("running", "streaming") and it.get("lag", 0) == 0)
        return roles == ["leader", "replica", "sync_standby" if self.synchronous else "replica"]

    def direct(self):
        ports = ",".join(str(port) for port in self.ports.values())
        return (f"host={','.join(['127.0.0.1'] * len(NODES))} port={ports} dbname=postgres user=postgres "
                "target_session_attrs=read-write connect_timeout=2")

    def through_haproxy(self):
        return f"host=127.0.0.1 port={self.entrance} dbname=postgres user=postgres connect_timeout=2"

    def remove(self):
        for name in [*NODES, "haproxy", "etcd"]:
            if name in processes:
                processes[name].kill()
                processes[name].wait()
            if name in NODES:
                pg("remove", f"{folder}/{name}")


def fail_over(cluster, clients, machine):
    eventually("two standbys follow", lambda: faults or cluster.is_whole(), 90)
    with connect(cluster.direct()) as at:
        at.execute("select scylla.submit('kept')")
        kept = at.execute("select id, token from scylla.own_tasks('keeper', 'kept', timeout => '10 min')").fetchone()
        persisted = "select count(*) from scylla.lease where id = %s"
        eventually("the lease is written", lambda: at.execute(persisted, kept[:1]).fetchone()[0] == 1)
    time.sleep(1)
    old = cluster.leader()
    if machine:
        processes[old].send_signal(signal.SIGKILL)
        processes[old].wait()
    pg("kill", f"{folder}/{old}")
    killed = time.monotonic()
    times = clients.resume(killed, 60)
    new = cluster.leader()
    clients.try_old_tokens(cluster.direct())
    with connect(cluster.direct()) as at:
        if not at.execute("select scylla.extend(%s, %s)", kept).fetchone()[0]:
            faults.append("a lease that was in the table was lost")
        at.execute("select scylla.return_task(%s, %s)", kept)
    if machine:
        cluster.start(old)
    print(f"patroni: {'machine' if machine else 'server'} of {old} died, {new} leads; resumed after "
          + ", ".join(f"{what} {after:.1f} s" for what, after in times.items()), flush=True)


def scenario(synchronous, times):
    os.mkdir(folder, 0o755)
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    ended.clear()
    cluster = Cluster(synchronous)
    clients = Clients(cluster.direct, cluster.through_haproxy)
    try:
        eventually("there is a primary", cluster.leader, 90)
        with connect(cluster.direct()) as at:
            at.execute("create extension scylla")
        eventually("two standbys follow", cluster.is_whole, 90)
        clients.start()
        for n in range(times):
            if not faults:
                fail_over(cluster, clients, n % 2 == 0)
        lost, twice = clients.finish()
    except BaseException:
        for name in NODES:
            with open(f"{folder}/{name}.log", encoding="utf-8") as log:
                print(f"== {name}", *log.read().splitlines()[-15:], sep="\n", file=sys.stderr)
        raise
    finally:
        ended.set()
        cluster.remove()
        shutil.rmtree(folder)
    print(f"patroni: {'synchronous' if synchronous else 'asynchronous'}, {times} failovers; "
          f"{len(clients.acknowledged)} submissions acknowledged, {len(lost)} lost; {len(clients.completed)} tasks "
          f"completed, {len(twice)} twice; work resumed after {clients.longest:.1f} s at most", flush=True)
    if faults or not clients.completed or synchronous and (lost or twice or clients.longest > 15):
        sys.exit(f"patroni: {faults[:3]}, lost {list(lost)[:3]}, twice {twice[:3]}")


scenario(True, FAILOVERS)
scenario(False, max(1, FAILOVERS // 4))
print("patroni: ok")
