# The measurements of queues: what limits cost, and what a flooded one costs another. To be sourced
# after measure.bash.

# Both sides on one queue, with a limit that is never reached and without.
measure_limits() {
  local limit round
  for limit in 'max_running => 100000' 'max_per_second => 10000000'; do
    rm -f "$work/ours" "$work/theirs"
    for ((round = 1; round <= rounds; round++)); do
      say "limits, ${limit%% *}, round $round of $rounds"
      tidy
      sql "select scylla.configure_queue('bench', $limit)" >/dev/null
      prepare scylla-one 16 1
      slice scylla-one 16 >>"$work/ours"
      sql "select scylla.reset_queue('bench', '${limit%% *}')" >/dev/null
      prepare scylla-one 16 1
      slice scylla-one 16 >>"$work/theirs"
      note_rate scylla-one "$(tail -n 1 "$work/theirs")"
    done
    report limits 0.90 1 "own + return singly, 16 clients, ${limit%% *}; no limit"
  done
}

# ---- a flood ----

# Owning from a quiet queue, 100 times a second, while another queue has a million tasks, and while
# 64 workers ask that other queue, which may hand out 20 tasks a second, 640 times a second.
measure_flood() {
  local number=1000000 alone beside asked
  say flood
  tidy
  alone=$(quiet)
  sql "select scylla.configure_queue('flood', max_per_second => 20)" >/dev/null
  bench submit-flood 2 -t $((number / 2000)) >/dev/null
  tidy
  beside=$(quiet)
  "$SCYLLA_BIN/pgbench" -n -M prepared -f bench/script/flood-one.sql -c 64 -j 2 -R 640 -T $((seconds * rounds + 4)) \
    >/dev/null 2>"$work/flood" &
  asked=$!
  sleep 2
  local both
  both=$(quiet)
  wait "$asked" || fail "$(cat "$work/flood")"
  verdict_of_flood "beside $number tasks" "$beside" "$alone"
  verdict_of_flood "beside $number tasks and 64 workers" "$both" "$alone"
  sql "select scylla.reset_queue('flood', 'max_per_second')" >/dev/null
  sql "truncate scylla.task; select scylla.refresh()" >/dev/null
}

# quiet: microseconds of owning and returning, of which 99 of 100 are no longer.
quiet() {
  rm -f "$work"/quiet.*
  "$SCYLLA_BIN/pgbench" -n -M prepared -f bench/script/quiet-one.sql -c 2 -j 2 -R 100 -T $((seconds * rounds)) \
    -l --log-prefix="$work/quiet" >/dev/null 2>"$work/pgbench" || fail "$(cat "$work/pgbench")"
  awk '{ print $3 - $7 }' "$work"/quiet.* | sort -g | awk '{ a[NR] = $1 } END { print a[int(NR * 0.99 + 0.999)] }'
}

verdict_of_flood() { # verdict_of_flood WHAT OURS THEIRS
  row flood "p99 in µs of a quiet queue $1; alone" "$2" "$3" "$(calculate "$2 / $3" 2)" - '2 at most' \
    "$(awk "BEGIN { print ($2 <= 2 * $3 ? \"ok\" : \"high\") }")"
}
