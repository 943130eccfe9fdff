"""An order and its tasks in one transaction; a worker in the same program.

python orders.py            with PGHOST, PGDATABASE and so on
"""

import threading

import psycopg

from scylla_pg import Abort, Client, Queue, Task, Worker

client = Client()
orders = Queue("example-orders", client=client)


@orders.task(max_tries=3)
def charge(order: int, cents: int) -> str:
    if cents <= 0:
        raise Abort("bad_amount", f"order {order} costs {cents}", order=order)
    return f"order {order} charged"


@orders.task
def ship(task: Task, order: int) -> str:
    # runs after the charge; task.num_failures counts what failed before it
    return f"order {order} {'shipped' if task.num_failures == 0 else 'not shipped'}"


def place_order(conn: psycopg.Connection, order: int, cents: int) -> object:
    """All or nothing: the row, and both tasks."""
    conn.execute("insert into example_order values (%s, %s)", [order, cents])
    charged = charge.using(conn).submit(order=order, cents=cents)
    return ship.using(conn, after=[charged], on_failure="run", post_result=True).submit(order=order)


def main() -> None:
    with psycopg.connect() as conn:
        conn.execute("create table if not exists example_order (id int, cents int)")
        shipments = [place_order(conn, 1, 995), place_order(conn, 2, 0)]
        try:
            with conn.transaction():
                place_order(conn, 3, 100)
                raise ValueError("the customer left")
        except ValueError:
            pass  # order 3 has no row and no task

    worker = Worker("", orders)
    thread = threading.Thread(target=worker.run)
    thread.start()
    for id in shipments:
        print(client.result(str(id), timeout=20))
    worker.stop()
    thread.join()
    print(dict(sorted(worker.stats.items())))


if __name__ == "__main__":
    main()
