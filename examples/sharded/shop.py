"""The shop: each customer's orders are on one shard, and so are the tasks of these orders.

python shop.py order CUSTOMER CENTS
python shop.py report
"""

import os
import sys
from hashlib import sha256
from uuid import UUID

import psycopg

from scylla_pg import Client

SHARDS = dict(enumerate(os.environ["SHARDS"].split(";"), 1))
"""By number, the address of each shard: SHARDS="host=one dbname=shop user=shop;host=two …"."""

tasks = Client()


def shard_of(customer: str) -> int:
    """The shard with the highest hash: a further shard takes its customers from all others."""
    return max(SHARDS, key=lambda shard: sha256(f"{shard} {customer}".encode()).digest())


def place_order(conn: psycopg.Connection, customer: str, cents: int) -> tuple[int, UUID]:
    """Writes the order and submits its task, in the transaction of `conn`: both, or neither."""
    row = conn.execute(
        "insert into orders (customer, cents) values (%s, %s) returning id", [customer, cents]
    ).fetchone()
    assert row
    order: int = row[0]
    task = tasks.submit(
        "receipts",
        {"order": order},
        action="receipt",
        key=str(order),
        group_key=customer,
        conn=conn,
    )
    return order, task


def report() -> None:
    print("shard  ready  running  done")
    for shard, address in SHARDS.items():
        try:
            with psycopg.connect(address) as conn:
                counts = conn.execute(
                    "select ready, running, completed from scylla.queues where queue = 'receipts'"
                ).fetchone()
        except psycopg.OperationalError:
            print(f"{shard:5}  away")
        else:
            ready, running, done = counts or (0, 0, 0)  # no row: it has had no task yet
            # null: the server has just started, and counts
            print(f"{shard:5}  {'?' if ready is None else ready:>5}  {running:>7}  {done:>4}")


def main() -> None:
    match sys.argv[1:]:
        case ["order", customer, cents]:
            shard = shard_of(customer)
            with psycopg.connect(SHARDS[shard]) as conn:
                order, task = place_order(conn, customer, int(cents))
            print(f"order {order} is on shard {shard}, as is its task {task}")
        case ["report"]:
            report()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
