#!/usr/bin/env python3
"""break: breaks the client in one way after another; the named test has to fail each time.

break.py [WORD]: only breakages whose test has the word in its name. Fails when a test passes with
a broken client, and when a breakage does not apply any more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

project = Path(__file__).resolve().parent.parent

# (test, file, text, what it becomes)
BREAKAGES = [
    (
        "test_leases.py::test_task_of_three_leases_is_kept",
        "worker.py",
        "if beat and self._up and not self._beating:",
        "if False:",
    ),
    (
        "test_leases.py::test_each_lease_has_its_own_length",
        "worker.py",
        "beat = beat or now >= run.beat_at",
        "beat = beat or now >= run.beat_at + 2",
    ),
    (
        "test_leases.py::test_fence_is_before_the_leases_end",
        "run.py",
        "self.fence = asked_at + 0.9 * self.length",
        "self.fence = asked_at + 1.9 * self.length",
    ),
    (
        "test_leases.py::test_frozen_process_loses_its_lease",
        "worker.py",
        "asyncio.get_running_loop().call_soon(run.asyncio_task.cancel)",
        "pass",
    ),
    (
        "test_leases.py::test_cancel_is_heard_within_200_ms[free-cancel]",
        "worker.py",
        "            self._signalled = True\n            self._beat_now.set()",
        "            self._beat_now.set()",
    ),
    (
        "test_leases.py::test_cancel_is_heard_within_200_ms[free-delete]",
        "worker.py",
        'elif state == "lost":',
        'elif state in ("lost", "gone"):',
    ),
    (
        "test_leases.py::test_cancel_is_heard_within_200_ms[full-cancel]",
        "worker.py",
        "await self._beat(first=True)",
        "await self._beat()",
    ),
    (
        "test_leases.py::test_cancel_is_heard_within_200_ms[full-delete]",
        "worker.py",
        "FULL_PAUSE = 0.1",
        "FULL_PAUSE = 2.0",
    ),
    (
        "test_leases.py::test_result_after_a_cancel_is_dropped",
        "worker.py",
        "run.task.set_cause(cause)",
        "pass",
    ),
    (
        "test_handlers.py::test_concurrency_is_never_exceeded[async]",
        "worker.py",
        "self._asked += most - len(batch) if most else 0",
        "pass",
    ),
    (
        "test_handlers.py::test_concurrency_is_never_exceeded[thread]",
        "worker.py",
        "return self._capacity - len(self._runs) - self._asked",
        "return self._capacity - self._running",
    ),
    (
        "test_handlers.py::test_prefetch_owns_more_than_runs",
        "worker.py",
        "self._capacity = concurrency + prefetch",
        "self._capacity = concurrency",
    ),
    (
        "test_handlers.py::test_action_without_a_handler_is_left_alone",
        "statements.py",
        "self._tail = (array(actions), lease)",
        "self._tail = (None, lease)",
    ),
    (
        "test_handlers.py::test_several_queues_in_order",
        "worker.py",
        "[queue.name for queue in served],",
        "[queue.name for queue in reversed(served)],",
    ),
    (
        "test_handlers.py::test_error_is_stored_with_its_traceback[async]",
        "outcome.py",
        'args["traceback"] = text[-_MOST_TRACEBACK:]',
        'args["traceback"] = ""',
    ),
    (
        "test_handlers.py::test_error_is_stored_with_its_traceback[thread]",
        "outcome.py",
        '"description": clean(description[:4000])',
        '"description": description[:4000]',
    ),
    (
        "test_handlers.py::test_abort_is_final",
        "outcome.py",
        'Outcome("aborted", error=_abort(error))',
        'Outcome("retry", error=_abort(error))',
    ),
    (
        "test_handlers.py::test_snooze_does_not_count_the_try",
        "outcome.py",
        'Outcome("yield", run_at=_moment(error.delay, clock_offset))',
        'Outcome("retry", run_at=_moment(error.delay, clock_offset))',
    ),
    (
        "test_handlers.py::test_result_that_cannot_be_stored_fails_the_try_alone",
        "worker.py",
        'code[:2] in ("22", "54")',
        "False",
    ),
    (
        "test_handlers.py::test_time_limit",
        "run.py",
        "thrown = run.cause or error",
        "thrown = error",
    ),
    (
        "test_handlers.py::test_own_timeouts_of_a_handler_stay_its_own",
        "run.py",
        "thrown = run.cause or error",
        'thrown = run.cause or Stopped("?")',
    ),
    (
        "test_handlers.py::test_progress_goes_with_the_heartbeat",
        "worker.py",
        "array(shares) if noted else None",
        "None",
    ),
    (
        "test_handlers.py::test_context_variables_reach_threads",
        "worker.py",
        "run.job = Job(lambda: context.run(self._call, run), report)",
        "run.job = Job(lambda: self._call(run), report)",
    ),
    (
        "test_server.py::test_connections_are_one_and_at_most_four",
        "worker.py",
        "size = min(4, self.concurrency)",
        "size = 8",
    ),
    (
        "test_server.py::test_every_connection_is_terminated",
        "worker.py",
        "self._spawn(self._recover(1))",
        "pass",
    ),
    (
        "test_server.py::test_two_immediate_restarts",
        "worker.py",
        "                        connection = None\n                        self._lost(error)",
        "                        raise",
    ),
    (
        "test_server.py::test_submission_is_not_doubled_when_its_answer_is_lost",
        "client.py",
        'if conn is None and submission.options.get("id") is None:',
        "if False:",
    ),
    (
        "test_server.py::test_lost_answer_of_a_return_counts_once",
        "worker.py",
        "elif run.doubtful:",
        "elif False:",
    ),
    (
        "test_server.py::test_closed_database",
        "worker.py",
        "event = rows[0][0]",
        'event = rows[0][0] or "drain"',
    ),
    (
        "test_server.py::test_server_that_is_away_at_the_start",
        "worker.py",
        "except (Gone, psycopg.Error) as error:\n                if attempt in",
        "except psycopg.Error as error:\n                if attempt in",
    ),
    (
        "test_server.py::test_what_an_idle_worker_sends",
        "worker.py",
        "        self._wait_number += 1\n",
        "        self._wait_number += 1\n        await self._beat(first=True)\n",
    ),
    (
        "test_server.py::test_prepared_statements_that_a_pooler_lost",
        "link.py",
        '_UNPREPARED = ("26000", "42P05")',
        "_UNPREPARED = ()",
    ),
    (
        "test_server.py::test_password_that_changes",
        "link.py",
        "self._conninfo = conninfo",
        "self._conninfo = conninfo() if callable(conninfo) else conninfo",
    ),
    (
        "test_stop.py::test_drain_lets_handlers_end",
        "worker.py",
        "await self._idle_within(self._grace)",
        "await self._idle_within(0)",
    ),
    (
        "test_stop.py::test_drain_worker",
        "worker.py",
        'elif event == "drain":',
        'elif event == "?":',
    ),
    (
        "test_stop.py::test_grace_over[sleep]",
        "worker.py",
        'self._stop_run(run, Shutdown("the worker stops"))',
        "pass",
    ),
    (
        "test_stop.py::test_grace_over[ignore]",
        "worker.py",
        "if run.outcome is None and not run.is_dropped:\n                self._end(run, YIELD)",
        "if False:\n                self._end(run, YIELD)",
    ),
    (
        "test_stop.py::test_grace_over[block]",
        "threads.py",
        "daemon=True",
        "daemon=False",
    ),
    (
        "test_stop.py::test_second_signal_hands_back_at_once",
        "worker.py",
        "self._at_once.set()",
        "pass",
    ),
    (
        "test_stop.py::test_kill_9",
        "worker.py",
        "None if lease is None else interval(lease),",
        'interval("1 hour"),',
    ),
    (
        "test_stop.py::test_prefetched_tasks_are_handed_back",
        "worker.py",
        "for run in self._backlog:\n            self._end(run, YIELD)\n        self._backlog.clear()",
        "pass",
    ),
    (
        "test_stop.py::test_stop_without_a_server",
        "worker.py",
        "while (self._done or self._settling) and clock() < ends_at:",
        "while self._done or self._settling:",
    ),
    (
        "test_stop.py::test_cancelled_coroutine_hands_back",
        "worker.py",
        "            self._stop()\n            self._stop()\n            await asyncio.shield(drained)",
        "            pass",
    ),
    (
        "test_submit.py::test_psycopg_commit_rollback_savepoint",
        "drivers.py",
        "row = cursor.execute(call.sql, call.params).fetchone()",
        "row = cursor.execute(call.sql, call.params).fetchone(); connection.commit()",
    ),
    (
        "test_submit.py::test_sqlalchemy",
        "drivers.py",
        'sql = _numbered(call, ":p").replace("::", "\\\\:\\\\:")',
        'sql = _numbered(call, ":p")',
    ),
    (
        "test_submit.py::test_asynchronous_connections",
        "drivers.py",
        'row = await connection.fetchrow(_numbered(call, "$"), *call.params)',
        "row = await connection.fetchrow(call.sql, *call.params)",
    ),
    (
        "test_submit.py::test_submit_many_beyond_a_batch_is_one_transaction",
        "client.py",
        "with connection.transaction():",
        "if True:",
    ),
    (
        "test_submit.py::test_spec_that_json_cannot_hold_is_refused",
        "codec.py",
        'if "\\\\u" in text:',
        "if False:",
    ),
    (
        "test_submit.py::test_annotations_decide_what_a_handler_gets",
        "codec.py",
        "if hint in (UUID, Decimal):",
        "if hint is UUID:",
    ),
    (
        "test_testing.py::test_capture_sends_nothing",
        "testing.py",
        "recorder.reset(token)",
        "pass",
    ),
    (
        "test_testing.py::test_run_ready",
        "testing.py",
        "conn.execute(exchange.returning.encode(), params)",
        "pass",
    ),
    (
        "test_middleware.py::test_around_handlers",
        "worker.py",
        "        if not self.middleware:\n            return _NOTHING\n        return around_handle(self.middleware, task)",
        "        return _NOTHING",
    ),
    (
        "test_middleware.py::test_traces",
        "opentelemetry.py",
        "context=sender if first else Context(),",
        "context=sender,",
    ),
    (
        "test_middleware.py::test_metrics",
        "opentelemetry.py",
        "            except Snooze:\n                raise\n",
        "",
    ),
    (
        "test_django.py::test_enqueue_is_part_of_the_transaction",
        "django/backend.py",
        "select to_jsonb(t)::text from scylla.tasks as t where id = %s::text::uuid ",
        "select scylla.task(%s::text::uuid)::text ",
    ),
    (
        "test_django.py::test_results",
        "django/backend.py",
        "if result.task.takes_context else ()",
        "if False else ()",
    ),
    (
        "test_submit.py::test_duplicate_tells_all_that_the_server_said[asyncpg]",
        "errors.py",
        "text = text or getattr(holder, of_asyncpg, None)",
        "pass",
    ),
    (
        "test_submit.py::test_duplicate_tells_all_that_the_server_said[psycopg2]",
        "errors.py",
        'detail=_field(error, "message_detail", "detail"),',
        "detail=None,",
    ),
    (
        "test_submit.py::test_what_is_no_such_refusal_stays_the_drivers_error",
        "errors.py",
        'not message.startswith("queue ")',
        "False",
    ),
]


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    wrong = []
    for test, file, text, other in BREAKAGES:
        if word not in test:
            continue
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "scylla_pg"
            shutil.copytree(project / "src/scylla_pg", package)
            source = (package / file).read_text()
            if source.count(text) != 1:
                wrong.append(f"{test}: {source.count(text)} times in {file}: {text}")
                print(wrong[-1], flush=True)
                continue
            (package / file).write_text(source.replace(text, other))
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", f"tests/{test}"],
                cwd=project,
                env={**os.environ, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
                timeout=300,
            )
        failed = done.returncode == 1
        last = [line for line in done.stdout.splitlines() if line.startswith("E  ")]
        print(f"{'fails' if failed else 'PASSES'}: {test}: {(last or ['?'])[0][:110]}", flush=True)
        if not failed:
            wrong.append(test)
    if wrong:
        sys.exit(f"break: {len(wrong)} not seen failing: {', '.join(wrong)}")


main()
