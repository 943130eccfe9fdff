"""client: each method of pgmq's client for Python, on a database that has its functions.

Takes a connection string, whose host is a folder or an address. Prints how many calls did what they shall.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import warnings
from datetime import datetime, timedelta, timezone

import asyncpg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict

import pgmq
from pgmq import async_queue


class Client:
    """The synchronous client or the asynchronous one, and which of its methods were called."""

    def __init__(self, client):
        self.client, self.calls, self.called = client, 0, set()

    async def __call__(self, method, *arguments, **named):
        self.calls += 1
        self.called.add(method)
        result = getattr(self.client, method)(*arguments, **named)
        return await result if inspect.isawaitable(result) else result

    async def refuses(self, method, *arguments, **named):
        """Whether the call fails."""
        try:
            await self(method, *arguments, **named)
        except Exception:
            return True
        return False

    def untried(self):
        """The methods that were not called."""
        names = (name for name in dir(self.client) if not name.startswith("_"))
        methods = {name for name in names if inspect.ismethod(getattr(self.client, name))}
        return sorted(methods - self.called - {"close", "init"})


def texts(messages):
    """The messages of a result, whose order pgmq does not promise."""
    return sorted(message.message["n"] for message in messages)


async def queues(call, q):
    """Queues are created, listed and dropped."""
    await call("create_queue", q)
    await call("create_queue", q)
    await call("create_queue", q + "_u", unlogged=True)
    found = {it.queue_name: it for it in await call("list_queues")}
    assert found[q + "_u"].is_unlogged and not found[q].is_unlogged and not found[q].is_partitioned
    assert found[q].created_at <= datetime.now(timezone.utc) + timedelta(minutes=1)
    assert await call("validate_queue_name", q)
    assert await call.refuses("validate_queue_name", "q" * 48)
    assert await call("drop_queue", q + "_u")
    assert not await call("drop_queue", q + "_u")
    assert await call.refuses("send", q + "_u", {"n": 0})


async def messages(call, q):
    """Messages are sent, read, hidden, popped, archived and deleted."""
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    one = await call("send", q, {"n": 1})
    assert isinstance(one, int)
    await call("send", q, {"n": 2}, delay=3600)
    await call("send", q, {"n": 3}, delay=later)
    four = await call("send", q, {"n": 4}, headers={"h": [1]})
    await call("send", q, {"n": 5}, headers={"h": 2}, delay=3600)
    await call("send", q, {"n": 6}, headers={"h": 3}, delay=later)
    seven = await call("send_batch", q, [{"n": 7}, {"n": 8}])
    assert len(seven) == 2 and seven[0] < seven[1]
    await call("send_batch", q, [{"n": 9}], delay=3600)
    await call("send_batch", q, [{"n": 10}], delay=later)
    await call("send_batch", q, [{"n": 11}], headers=[{"h": 4}])
    await call("send_batch", q, [{"n": 12}], headers=[{"h": 5}], delay=3600)
    await call("send_batch", q, [{"n": 13}], headers=[{"h": 6}], delay=later)
    assert await call("send_batch", q, []) == []
    found = await call("metrics", q)
    assert (found.queue_name, found.queue_length, found.queue_visible_length) == (q, 13, 5)
    assert found.newest_msg_age_sec <= found.oldest_msg_age_sec < 60

    message = await call("read", q, vt=600)
    assert (message.msg_id, message.message, message.headers, message.read_ct) == (one, {"n": 1}, None, 1)
    assert message.last_read_at is not None and message.vt > message.enqueued_at + timedelta(minutes=9)
    message = await call("read", q, vt=600, conditional={"n": 8})
    assert texts([message]) == [8]
    found = await call("read_batch", q, vt=600, batch_size=2)
    assert texts(found) == [4, 7] and {"h": [1]} in [it.headers for it in found]
    assert texts(await call("read_with_poll", q, vt=600, qty=9)) == [11]
    assert await call("read", q) is None
    assert await call("read_batch", q) == []
    assert await call("read_with_poll", q, qty=2, max_poll_seconds=1) == []
    poll = {"max_poll_seconds": 1, "poll_interval_ms": 50, "conditional": {"n": 77}}
    assert await call("read_with_poll", q, **poll) == []

    assert (await call("set_vt", q, one, 0)).read_ct == 1
    assert (await call("read", q, vt=600)).read_ct == 2
    assert (await call("set_vt", q, one, later)).vt == later
    assert texts(await call("set_vt", q, [one, four], 0)) == [1, 4]
    assert texts(await call("set_vt", q, [one, four], datetime.now(timezone.utc))) == [1, 4]
    assert await call("set_vt", q, one + 10**6, 0) is None
    assert texts([await call("pop", q)]) == [1]
    assert texts(await call("pop", q, qty=5)) == [4]
    assert await call("pop", q) is None

    assert await call("archive", q, seven[0])
    assert not await call("archive", q, seven[0])
    assert await call("archive_batch", q, [seven[1], seven[0]]) == [seven[1]]
    left = sorted(it.queue_length for it in await call("metrics_all") if it.queue_name == q)
    assert left == [9]
    eleven = await call("send", q, {"n": 14})
    assert await call("delete", q, eleven)
    assert not await call("delete", q, eleven)
    fifteen = await call("send_batch", q, [{"n": 15}, {"n": 16}])
    assert sorted(await call("delete_batch", q, [*fifteen, eleven])) == fifteen
    assert await call("purge", q) == 9
    assert await call("purge", q) == 0


async def groups(call, q):
    """Groups are read in their order."""
    await call("create_fifo_index", q)
    await call("create_fifo_indexes_all")
    given = [("a", 1), ("a", 2), ("b", 3), ("a", 4)]
    ids = [await call("send", q, {"n": n}, headers={"x-pgmq-group": group}) for group, n in given]
    assert texts(await call("read_grouped_rr", q, vt=600, qty=2)) == [1, 3]
    assert await call("read_grouped", q, qty=9) == []
    await call("set_vt", q, ids, 0)
    assert texts(await call("read_grouped", q, vt=600, qty=3)) == [1, 2, 4]
    await call("set_vt", q, ids, 0)
    assert texts(await call("read_grouped_with_poll", q, vt=600, qty=2, max_poll_seconds=1)) == [1, 2]
    assert texts(await call("read_grouped_rr_with_poll", q, vt=600, qty=2, max_poll_seconds=1)) == [3]
    await call("purge", q)


async def topics(call, q):
    """Messages go to the queues whose patterns match."""
    await call("bind_topic", "orders.#", q)
    assert [it.pattern for it in await call("list_topic_bindings")] == ["orders.#"]
    assert [it.queue_name for it in await call("list_topic_bindings", q)] == [q]
    assert [it.queue_name for it in await call("test_routing", "orders.eu")] == [q]
    assert await call("test_routing", "payments") == []
    assert await call("validate_routing_key", "orders.eu")
    assert not await call("validate_routing_key", "orders..eu")
    assert await call("validate_topic_pattern", "orders.*")
    assert not await call("validate_topic_pattern", "orders.**")
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    assert await call("send_topic", "orders.eu", {"n": 1}) == 1
    assert await call("send_topic", "orders.eu", {"n": 3}, delay=60) == 1
    assert await call("send_topic", "orders.eu", {"n": 4}, headers={"h": 1}, delay=60) == 1
    assert await call("send_topic", "payments", {"n": 5}) == 0
    assert len(await call("send_batch_topic", "orders.eu", [{"n": 5}, {"n": 6}])) == 2
    assert len(await call("send_batch_topic", "orders.eu", [{"n": 7}], headers=[{"h": 1}])) == 1
    assert len(await call("send_batch_topic", "orders.eu", [{"n": 8}], delay=60)) == 1
    assert len(await call("send_batch_topic", "orders.eu", [{"n": 9}], delay=later)) == 1
    assert len(await call("send_batch_topic", "orders.eu", [{"n": 10}], headers=[{}], delay=60)) == 1
    assert len(await call("send_batch_topic", "orders.eu", [{"n": 11}], headers=[{}], delay=later)) == 1
    assert texts(await call("read_batch", q, vt=600, batch_size=9)) == [1, 5, 6, 7]
    assert (await call("metrics", q)).queue_length == 10
    assert await call("unbind_topic", "orders.#", q)
    assert not await call("unbind_topic", "orders.#", q)


async def the_rest(call, q):
    """Notifications, and what changes nothing on scylla."""
    await call("enable_notify", q, throttle_interval_ms=100)
    await call("update_notify", q, 200)
    found = await call("list_notify_throttles")
    assert [(it.queue_name, it.throttle_interval_ms) for it in found] == [(q, 200)]
    await call("disable_notify", q)
    await call("detach_archive", q)


async def scenario(client):
    """Calls every method."""
    call = Client(client)
    for part in (queues, messages, groups, topics, the_rest):
        await part(call, "python")
    await call("drop_queue", "python")
    return call


async def main():
    """Runs the scenario with each client."""
    warnings.simplefilter("ignore")
    reach = conninfo_to_dict(sys.argv[1])
    with psycopg_pool.ConnectionPool(sys.argv[1], min_size=1, max_size=2, open=True) as pool:
        one = await scenario(pgmq.PGMQueue(pool=pool, init_extension=False))
    address = {"host": reach["host"], "port": int(reach["port"]), "user": reach["user"], "database": reach["dbname"]}
    async with asyncpg.create_pool(min_size=1, max_size=2, **address) as pool:
        two = await scenario(async_queue.PGMQueue(pool=pool, init_extension=False))
    # pg_partman makes these of pgmq, and it is no part of what is tested.
    partitions = ["convert_archive_partitioned", "create_partitioned_queue"]
    assert one.untried() == two.untried() == partitions, (one.untried(), two.untried())
    print(f"{one.calls + two.calls} calls")


asyncio.run(main())
