#!/usr/bin/python3 -B
"""churn DIR: shards are killed and started again under load; each task is completed once, and none is lost.

DIR is one that `start` made; the environment says how to reach the router. Tasks go to a spread queue and
to queues of one shard each. Every submission names its id and is repeated until it is acknowledged.

  SCYLLA_TASKS=N   how many tasks (2000)
  SCYLLA_KILLS=N   how often a shard is killed (3)

With more than ten kills a shard is added and one is drained in the middle. The last line is `churn: ok`.
"""
import collections
import os
import random
import sys
import threading
import time
import uuid

import psycopg
from load import AWAY, connect, ended, faults, guarded, pg, place

TASKS = int(os.environ.get("SCYLLA_TASKS", "2000"))
KILLS = int(os.environ.get("SCYLLA_KILLS", "3"))
WORKERS, BATCH, SEED = 8, 25, int(os.environ.get("SCYLLA_SEED", "0")) or random.randrange(1 << 30)
QUEUES = ["spread"] + [f"single{n}" for n in range(6)]

folder = sys.argv[1]
acknowledged, submitted = set(), threading.Event()
returned = collections.Counter()
lock, refused = threading.Lock(), collections.Counter()


def persist(connection, sql, *arguments):
    """The rows of a call that is repeated while a shard does not answer; None: what it was for is done."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return connection.execute(sql, arguments).fetchall()
        except psycopg.Error as error:
            state = error.sqlstate or str(error)
            with lock:
                refused[state] += 1
            if state in ("23505", "55006", "P0002"):
                return None
            if state == "55000" and "completed" in str(error):
                return []  # an earlier attempt did it
            if state not in (*AWAY, "55000") or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def submit(part, rnd):
    with connect() as connection:
        for _ in range(TASKS // 4):
            id, queue = uuid.uuid4(), rnd.choice(QUEUES)
            persist(connection, "select scylla.submit(%s, id => %s)", queue, id)
            with lock:
                acknowledged.add(id)


def work(number, rnd):
    name = f"w{number}"
    with connect() as connection:
        while not ended.is_set():
            queue = rnd.choice(QUEUES)
            try:
                owned = connection.execute(
                    "select id, token from scylla.own_tasks(%s, %s, %s, timeout => '3 s')", (name, queue, BATCH)
                ).fetchall()
            except psycopg.Error as error:
                if error.sqlstate not in AWAY:
                    raise
                time.sleep(0.05)
                continue
            if not owned:
                time.sleep(0.02)
                continue
            if rnd.random() < 0.5:
                for id, token in owned:
                    if persist(connection, "select scylla.return_task(%s, %s)", id, token):
                        with lock:
                            returned[id] += 1
            else:
                ids, tokens = [list(column) for column in zip(*owned)]
                answers = persist(connection, "select scylla.return_tasks(%s, %s)", ids, tokens) or [([],)]
                with lock:
                    returned.update(id for id, status in zip(ids, answers[0][0]) if status == "completed")


def torment(rnd):
    with connect() as router:
        shards = [row[0] for row in router.execute("select shard from router.shard order by shard")]
        for kill in range(KILLS):
            while len(acknowledged) < TASKS * kill // KILLS and not ended.is_set():
                time.sleep(0.1)  # over the whole of the load
            if KILLS > 10 and kill == KILLS // 3:
                number = len(shards)
                where = place(pg("start", f"{folder}/shard{number}", f"scylla.shard = {number}", "fsync = off"))
                with connect(where + " user=postgres") as new:
                    new.execute("create extension scylla")
                router.execute("select router.add_shard(%s, %s)", (len(shards), where))
                shards.append(len(shards))
            if KILLS > 10 and kill == KILLS // 2:
                router.execute("select router.drain_shard(1)")
            shard = rnd.choice(shards)
            pg("kill", f"{folder}/shard{shard}")
            time.sleep(rnd.uniform(0.1, 1.0))
            pg("restart", f"{folder}/shard{shard}")
            time.sleep(rnd.uniform(0.1, 0.6))


def main():
    print(f"churn: seed {SEED}", flush=True)
    with connect() as router:
        router.execute("select router.spread_queue('spread')")
        begun = time.monotonic()
        submitters = [guarded(submit, n, random.Random(SEED + n)) for n in range(4)]
        workers = [guarded(work, n, random.Random(SEED + 100 + n)) for n in range(WORKERS)]
        torment(random.Random(SEED + 1000))
        for thread in submitters:
            thread.join()
        left, done, moved = 1, 0, time.monotonic()
        while left and not faults and time.monotonic() < moved + 60:
            time.sleep(0.2)
            if sum(returned.values()) > done:
                done, moved = sum(returned.values()), time.monotonic()
            counted = "select sum(coalesce(waiting + ready, 1) + running) from scylla.queues where queue = any (%s)"
            left = router.execute(counted, (QUEUES,)).fetchone()[0]
        ended.set()
        for thread in workers:
            thread.join()
        completed = collections.Counter()
        for shard, connection in router.execute("select shard, connection from router.shard").fetchall():
            with connect(connection + " user=postgres") as at:
                completed.update(row[0] for row in at.execute(
                    "select id from scylla.tasks where status = 'completed' and queue = any (%s)", (QUEUES,)))
    twice = [id for id, times in completed.items() if times > 1]
    again = [id for id, times in returned.items() if times > 1]
    lost, unknown = acknowledged - set(completed), set(completed) - acknowledged
    print(f"churn: {len(acknowledged)} tasks, {KILLS} kills, {time.monotonic() - begun:.0f} s; errors {dict(refused)}")
    passed = len(acknowledged) == TASKS // 4 * 4
    for what, some in (("completed on two shards", twice), ("returned twice", again), ("lost", lost),
                       ("completed and never submitted", unknown), ("fault", faults), ("unfinished", left and [left])):
        if some:
            print(f"churn: {what}: {len(some)}, such as {list(some)[:3]}")
            passed = False
    if not passed:
        sys.exit(1)
    print("churn: ok")


main()
