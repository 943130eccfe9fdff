"""The worker: one process, which writes the receipts of all shards until SIGTERM."""

import logging

import psycopg
from shop import SHARDS

from scylla_pg import Abort, Queue, Worker, run_all


def worker_of(address: str) -> Worker:
    receipts = Queue("receipts")

    @receipts.task
    def receipt(order: int) -> None:
        with psycopg.connect(address) as conn:
            found = conn.execute("select customer, cents from orders where id = %s", [order])
            if (row := found.fetchone()) is None:
                raise Abort("no_order", f"order {order} is not on this shard")
            # A try whose return was lost is repeated: its receipt is there already.
            conn.execute(
                'insert into receipts ("order", text) values (%s, %s) on conflict do nothing',
                [order, f"{row[0]} paid {row[1]} cents"],
            )

    return Worker(address, receipts, concurrency=5, grace=10)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run_all([worker_of(address) for address in SHARDS.values()])
