# The measurements of delays. To be sourced after measure.bash.

# set_and_reload SETTING VALUE: for all processes, without a restart.
set_and_reload() {
  sql "alter system set $1 = '$2'"
  sql 'select pg_reload_conf()' >/dev/null
}

# ---- a backlog ----

# All fall due at once: the scheduler learns an hour earlier that they must fire.
measure_backlog() {
  local number=1000000
  say backlog
  bench submit-later 2 -t $((number / 2000)) >/dev/null
  tidy
  set_and_reload scylla.timing_advance 1h
  until [ "$(sql "select exists (select from scylla.task where due is not null)")" = f ]; do sleep 1; done
  sql "select count(*) / extract(epoch from max(updated) - min(updated)) from scylla.task where queue = 'backlog' and ready" >"$work/ours"
  [ "$(sql "select count(*) from scylla.task where queue = 'backlog' and ready")" = $number ] || fail 'the backlog has not fired'
  set_and_reload scylla.timing_advance 0
  absolute backlog 20000 '1,000,000 waiting tasks, all due at once, fire'
  sql "delete from scylla.task where queue = 'backlog'"
  sql 'select scylla.refresh()' >/dev/null
}

# ---- messages in time ----

# 1,000 messages a second for 30 s, due 3 to 10 s later; a consumer polls. The measured time is when
# it owns each message.
measure_fire() {
  local consumer number p50 p99 p999 most
  say fire
  tidy
  "$SCYLLA_BIN/pgbench" -n -M prepared -f bench/script/consume.sql -c 1 -T 45 >/dev/null 2>"$work/consumer" &
  consumer=$!
  bench message 4 -T 30 -R 1000 >/dev/null
  wait "$consumer" || fail "$(cat "$work/consumer")"
  # An ownership that was open when the message fired has the time of its beginning.
  IFS='|' read -r number p50 p99 p999 most < <(sql "select number, round(p[1]), round(p[2]), round(p[3]), round(p[4])
    from (
      select count(*) as number,
        percentile_cont('{0.5, 0.99, 0.999, 1}'::float8[]) within group (order by late) as p
      from (
        select greatest(extract(epoch from owned_at - run_at)::float8 * 1000, 0) as late
        from scylla.finished where queue = 'fire') f) t")
  row fire "p99.9 in ms after the deadline: $number messages, 1,000/s" "$p999" - - - '20' "$([ "$p999" -le 20 ] && echo ok || echo late)"
  echo "fire: owned after the deadline, in ms: p50 $p50, p99 $p99, p99.9 $p999, the latest $most"
}
