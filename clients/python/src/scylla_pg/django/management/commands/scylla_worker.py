# pyright: basic
from __future__ import annotations

import importlib
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ....queue import Queue
from ....worker import Worker
from ...backend import _LIBRARY, CloseConnections, ScyllaBackend, conninfo


class Command(BaseCommand):
    help = "Runs tasks of scylla until SIGTERM or SIGINT."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--backend", default="default", help="an alias of TASKS")
        parser.add_argument(
            "--queue", action="append", help="a queue to serve; by default those of the backend"
        )
        parser.add_argument("--concurrency", type=int, default=10)
        parser.add_argument("--grace", type=float, default=25.0, help="seconds to end tasks in")
        parser.add_argument("--lease", help="length of a lease, such as '30 s'")

    def handle(self, **options: Any) -> None:
        backend = importlib.import_module(_LIBRARY).task_backends[options["backend"]]
        if not isinstance(backend, ScyllaBackend):
            raise CommandError(f"the backend {options['backend']} is not scylla_pg's")
        names = options["queue"] or sorted(backend.queues)
        queues: list[Queue] = [backend.queue(name) for name in names]
        worker = Worker(
            lambda: conninfo(backend.database),
            queues,
            concurrency=options["concurrency"],
            grace=options["grace"],
            lease=options["lease"],
            middleware=[CloseConnections(), *backend.middleware],
        )
        self.stdout.write(f"worker {worker.name} serves {', '.join(names)}")
        worker.run()
