#!/usr/bin/env bash
# Run once, by the first start: a role for workers, if SCYLLA_WORKER_PASSWORD is set. It owns and returns
# tasks of all queues, and can do nothing else.
set -euo pipefail
[ -n "${SCYLLA_WORKER_PASSWORD:-}" ] || exit 0
# The password is read by psql, not passed on a command line that others can see.
psql -Xq -v ON_ERROR_STOP=1 <<'END'
\getenv password SCYLLA_WORKER_PASSWORD
create role worker login password :'password';
select scylla.grant('*', 'worker', '{work}') \g /dev/null
END
