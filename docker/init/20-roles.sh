#!/usr/bin/env bash
# Run once, by the first start: roles, if their passwords are set. SCYLLA_WORKER_PASSWORD: the worker owns and
# returns tasks of all queues. SCYLLA_VIEWER_PASSWORD: the viewer looks at all of them. They can do nothing else.
set -euo pipefail
# Passwords are read by psql, not passed on a command line that others can see.
create() { # create ROLE PASSWORD PRIVILEGE
  [ -n "$2" ] || return 0
  password=$2 psql -Xq -v ON_ERROR_STOP=1 -v role="$1" -v privilege="{$3}" <<'END'
\getenv password password
create role :"role" login password :'password';
select scylla.grant('*', :'role', :'privilege') \g /dev/null
END
}
create worker "${SCYLLA_WORKER_PASSWORD:-}" work
create viewer "${SCYLLA_VIEWER_PASSWORD:-}" look
