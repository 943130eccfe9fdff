# Waking: how soon a worker learns of a task, and the cost of listeners. To be sourced after
# measure.bash.

build_wake() { cargo build -q --release -p client --example wake; }
wake() { "${CARGO_TARGET_DIR:-target}/release/examples/wake" "$@"; }

# measure_wake: milliseconds from the sending of submit, its commit included.
measure_wake() {
  build_wake
  time_wake work 'submit to the return of wait_for_work' 2 20
  time_wake notify 'submit to the notification' - 50
  echo
}

# time_wake HOW WHAT MEDIAN MOST: the targets of the median and of the 99th percentile.
time_wake() {
  local times
  say "wake, $1"
  tidy
  times=$(wake "$1" 1000)
  awk -v what="$2" -v median="$3" -v most="$4" '{
    wanted = (median == "-" ? "" : "p50 " median ", ") "p99 " most
    ok = (median == "-" || $1 <= median) && $2 <= most
    printf "wake: %s: p50 %.2f ms, p99 %.2f ms, longest %.2f ms (wanted: %s) %s\n", what, $1, $2, $3, wanted, ok ? "ok" : "high"
  }' <<<"$times"
}

# ---- listeners ----

measure_listeners() {
  local round listener
  build_wake
  rm -f "$work/ours" "$work/theirs"
  for ((round = 1; round <= rounds; round++)); do
    say "listeners, round $round of $rounds"
    tidy
    slice submit-one 16 >>"$work/theirs"
    coproc LISTENER { wake listen 100; }
    listener=$LISTENER_PID
    read -r -t 60 -u "${LISTENER[0]}" || fail 'the listeners did not start'
    slice submit-one 16 >>"$work/ours"
    exec {LISTENER[1]}>&-
    wait "$listener" || true
  done
  report listeners 0.90 1 'submit singly, 16 clients, 100 listeners; without'
  sql "truncate scylla.task; select scylla.refresh()" >/dev/null
}
