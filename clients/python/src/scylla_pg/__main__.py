"""`python -m scylla_pg app.tasks:mail app.tasks:report`: a worker for queues of a program."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from .queue import Queue
from .worker import Worker, run_all


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scylla_pg", description=__doc__)
    parser.add_argument("queues", nargs="+", metavar="MODULE:QUEUE", help="where a Queue is")
    parser.add_argument(
        "--dsn",
        action="append",
        help="connection string, by default PGHOST and so on; again for each further database",
    )
    parser.add_argument("--concurrency", type=int, default=10, help="handlers for each database")
    parser.add_argument("--grace", type=float, default=25.0, help="seconds to end tasks in")
    parser.add_argument("--lease", help="length of a lease, such as '30 s'")
    parser.add_argument("--name", help="the worker's name")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    sys.path.insert(0, os.getcwd())
    queues = [_load(parser, path) for path in options.queues]
    run_all(
        [
            Worker(
                dsn,
                queues,
                concurrency=options.concurrency,
                grace=options.grace,
                lease=options.lease,
                name=options.name,
            )
            for dsn in options.dsn or [""]
        ]
    )


def _load(parser: argparse.ArgumentParser, path: str) -> Queue:
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name, None) if name else None
    if not isinstance(found, Queue):
        parser.error(f"{path} is not MODULE:QUEUE with a scylla_pg.Queue")
    return found


if __name__ == "__main__":
    main()
