#!/usr/bin/python3 -B
"""rate DIR: while a shard is dead, the queues of the others go on as fast as before, two seconds after its death.

DIR is one that `start` made. Eight workers serve all queues, those of the dead shard too. 100 tasks a second
are submitted to the others. The last line is `rate: ok`.
"""
import random
import sys
import threading
import time

import psycopg
from load import AWAY, connect, ended, faults, guarded, pg

WINDOW, PACE = 3.0, 100  # seconds, tasks a second
folder = sys.argv[1]
done, lock = [], threading.Lock()


def submit(queues):
    begun = time.monotonic()
    with connect() as router:
        for n in range(1 << 30):
            if ended.wait(max(0.0, begun + n / PACE - time.monotonic())):
                return
            router.execute("select scylla.submit(%s)", (queues[n % len(queues)],))


def work(number, others):
    with connect() as router:
        while not ended.is_set():
            queue = random.choice(QUEUES)
            try:
                owned = router.execute(
                    "select id, token from scylla.own_tasks(%s, %s, 10)", (f"w{number}", queue)).fetchall()
                for id, token in owned:
                    router.execute("select scylla.return_task(%s, %s)", (id, token))
                    with lock:
                        done.append((time.monotonic(), queue in others))
            except psycopg.Error as error:
                if error.sqlstate not in AWAY:
                    raise
            else:
                if not owned:
                    time.sleep(0.02)


def rate(since):
    return sum(at >= since and at < since + WINDOW and other for at, other in done) / WINDOW


# New queues go to the shard with the fewest, which may be the same one for long.
mine, others, dead = [], [], None
with connect() as router:
    for n in range(200):
        queue = f"rate{n}"
        router.execute("select scylla.submit(%s)", (queue,))
        shard = router.execute("select shard from router.queue where queue = %s", (queue,)).fetchone()[0]
        dead = shard if dead is None else dead
        (mine if shard == dead else others).append(queue)
        if len(others) == 6:
            break
    QUEUES = mine[:2] + others
    for queue in QUEUES:
        router.execute("select scylla.submit(%s) from generate_series(1, 50)", (queue,))
threads = [guarded(submit, others)] + [guarded(work, n, others) for n in range(8)]
time.sleep(2)
before = time.monotonic()
time.sleep(WINDOW)
pg("kill", f"{folder}/shard{dead}")
after = time.monotonic() + 2
time.sleep(2 + WINDOW)
ended.set()
for thread in threads:
    thread.join()
pg("restart", f"{folder}/shard{dead}")
was, kept = rate(before), rate(after)
print(f"rate: {was:.0f} tasks a second of the other shards before, {kept:.0f} from 2 s after the death of shard {dead}")
if faults or was < PACE * 0.8 or kept < 0.95 * was:
    sys.exit(f"rate: too slow, or {faults}")
print("rate: ok")
