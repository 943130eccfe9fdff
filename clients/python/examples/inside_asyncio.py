"""A worker inside of an asyncio program, which also submits and waits.

python inside_asyncio.py
"""

import asyncio

from scylla_pg import AsyncClient, Queue, Snooze, Task, Worker

jobs = Queue("example-asyncio", client=AsyncClient())


@jobs.task
async def fetch(task: Task, page: int) -> int:
    if page == 3 and "waited" not in seen:
        seen.add("waited")
        raise Snooze(0.2)  # the page is not there yet: later, and not counted as a try
    await asyncio.sleep(0.05)
    return page * 10


seen: set[str] = set()


async def main() -> None:
    worker = Worker("", jobs, concurrency=5)
    serving = asyncio.create_task(worker.run_async())
    ids = [await fetch.using(post_result=True).submit_async(page) for page in range(5)]
    print(await asyncio.gather(*(jobs.client.result(id, timeout=20) for id in ids)))
    worker.stop()
    await serving
    print(dict(sorted(worker.stats.items())))
    await jobs.client.close()


asyncio.run(main())
