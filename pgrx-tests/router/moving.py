#!/usr/bin/python3 -B
"""moving DIR: a queue is moved while the shards that it leaves and enters, and the router, are killed.

DIR is one that `start` made. The call is repeated after each kill; in the end each task is there once.

  SCYLLA_MOVED=N   how many tasks the queue has (20000)
  SCYLLA_CUTS=N    how often each of the three is killed within a call (1)

The last line is `moving: ok`.
"""
import os
import random
import sys
import time

import psycopg
from load import connect, eventually, faults, guarded, pg

TASKS, CUTS = int(os.environ.get("SCYLLA_MOVED", "20000")), int(os.environ.get("SCYLLA_CUTS", "1"))
folder, errors = sys.argv[1], []


def submitted():
    with connect() as router:
        sql = """select unnest(scylla.submit_many('great', array(select jsonb_build_object('n', n)
            from generate_series(%s::int, %s::int) n)))"""
        return [row[0] for at in range(0, TASKS, 1000) for row in router.execute(sql, (at + 1, at + 1000)).fetchall()]


def move(to):
    try:
        with connect() as router:
            router.execute("call router.move_queue('great', %s)", (to,))
    except psycopg.Error as error:
        errors.append(error)


def place():
    with connect() as router:
        return router.execute("select shard, moving_to from router.queue where queue = 'great'").fetchone()


def ways():
    """Where the queue is, and where it goes: on, if it is moving."""
    here, moving = place()
    return here, moving if moving is not None else (here + 1) % 4


def cut(victim, wait):
    """Kills it within a call; false: the call was over by then."""
    here, to = ways()
    errors.clear()
    call = guarded(move, to)
    time.sleep(wait)
    in_time = call.is_alive()
    name = {"source": f"shard{here}", "target": f"shard{to}", "router": "router"}[victim]
    pg("kill", f"{folder}/{name}")
    call.join()
    pg("restart", f"{folder}/{name}")
    return in_time and bool(errors)


def moved(to):
    errors.clear()
    move(to)
    return place() == (to, None)


begun = time.monotonic()
ids = submitted()
filled = time.monotonic()
whole = None
for victim in ("source", "target", "router"):
    for _ in range(CUTS):
        for attempt in range(20):
            if cut(victim, random.uniform(0.1, 0.1 + TASKS / 25000 / (attempt + 1))):
                break
        else:
            sys.exit(f"moving: no call was cut by killing the {victim}")
_, to = ways()
last = time.monotonic()
eventually("the queue has moved", lambda: moved(to), 600)
with connect() as router:
    shards = dict(router.execute("select shard, connection from router.shard").fetchall())
found = {}
for shard, connection in shards.items():
    with connect(connection + " user=postgres") as at:
        rows = at.execute("select id, (spec ->> 'n')::int from scylla.tasks where queue = 'great'").fetchall()
        found[shard] = {id: n for id, n in rows}
        if len(rows) != len(found[shard]):
            sys.exit(f"moving: shard {shard} has a task twice")
print(f"moving: {len(ids)} tasks; {3 * CUTS} calls cut; "
      f"submitted in {filled - begun:.0f} s, the last call {time.monotonic() - last:.0f} s")
if faults:
    sys.exit(f"moving: {faults}")
if any(found[shard] for shard in found if shard != to):
    sys.exit(f"moving: tasks were left behind: { {shard: len(some) for shard, some in found.items()} }")
if set(found[to]) != set(ids) or sorted(found[to].values()) != list(range(1, len(ids) + 1)):
    sys.exit(f"moving: {len(set(ids) - set(found[to]))} lost, "
             f"{len(set(found[to]) - set(ids))} unknown, or specs changed")
with connect() as router:
    owned = router.execute("select count(*) from scylla.own_tasks('w', 'great', 100)").fetchone()[0]
    if owned != 100:
        sys.exit(f"moving: {owned} of 100 tasks could be owned")
    router.execute("select scylla.cancel_matching('{\"queue\": \"great\"}')")
print("moving: ok")
