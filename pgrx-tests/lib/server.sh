# server.sh: a private server for as long as a script runs, and PostgreSQL's own test drivers on it.
# The folder $extra, if there is one, is removed with it.
# To be sourced; $kind names the tests, $here is their folder.
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder= extra= driver= accept= passed=0 failed=0

# Without a limit of tries and a pause before a retry, unless a test gives one: tests show each
# mechanism alone. Nothing here outlives its machine, so it need not wait for the disk. Each database
# has its scheduler, and the page of SQL tasks needs places beside them, or its waits time out.
settings=("scylla.max_tries = 0" "scylla.retry_interval = 0" "fsync = off" "max_worker_processes = 40")

# Everything is removed at the end of the script, however it ends.
serve() {
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  "$repo/scripts/pg" tree >/dev/null
  folder=$(mktemp -d "/var/tmp/scylla-$kind.XXXXXX")
  chmod 755 "$folder" # the server's user passes through
  local reach
  reach=$(SCYLLA_NO_BUILD=1 "$repo/scripts/pg" start "$folder/server" "${settings[@]}")
  eval "$reach"
}

finish() {
  local status=$?
  trap '' EXIT INT TERM HUP
  [ -z "$driver" ] || { kill "$driver" && wait "$driver"; } 2>/dev/null || true
  if [ -n "$folder" ]; then
    "$repo/scripts/pg" remove "$folder/server" || true
    rm -rf "$folder"
  fi
  if [ -n "$extra" ]; then
    rm -rf "$extra"
  fi
  exit "$status"
}

# drive TESTS COMMAND...: runs one of the drivers on the tests, shows its lines and, where outputs
# differ, how. With $accept, the output becomes the expected one.
drive() {
  local -n tests=$1
  shift
  local log=$folder/log status=0 test
  for test in ${accept:+"${tests[@]}"}; do : >>"$here/expected/$test.out"; done
  : >"$log"
  # in the background, so that a signal is handled at once
  "$@" --inputdir="$here" --outputdir="$folder" --bindir="$SCYLLA_BIN" "${tests[@]}" >"$log" 2>&1 &
  driver=$!
  tail -f -n +1 --pid="$driver" "$log" &
  wait "$driver" || status=$?
  driver=
  wait
  count "$(grep -cE '^(test .*)?\s*\S+ +\.\.\. ok|^ok ' "$log" || true)" \
    "$(grep -cE '^(test .*)?\s*\S+ +\.\.\. (FAILED|failed)|^not ok ' "$log" || true)"
  [ "$status" = 0 ] || [ "$failed" != 0 ] || count 0 1
  if [ -n "$accept" ]; then
    for test in "${tests[@]}"; do cp "$folder/results/$test.out" "$here/expected/$test.out"; done
  elif [ -s "$folder/regression.diffs" ]; then
    head -n 400 "$folder/regression.diffs"
  fi
}

count() { passed=$((passed + $1)) failed=$((failed + $2)); }

# The last line, and the exit status.
conclude() {
  echo "$kind: $passed passed, $failed failed"
  [ "$passed" != 0 ] && [ "$failed" = 0 ]
}
