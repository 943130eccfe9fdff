# The measurements of schedules. To be sourced after measure.bash.

# register NUMBER QUEUE EXPRESSION NEXT: schedules whose next run is an SQL expression in n.
register() {
  sql "insert into scylla.schedule (name, owner, schedule, queue, spec, action, priority, time_zone, misfire, overlap, next_run)
    select '$2-' || n, (select oid from pg_roles where rolname = current_user), '$3', '$2', '{\"n\": 1}', '', 0, 'UTC', 'once', 'allow', $4
    from generate_series(1, $1) n"
  sql 'vacuum (analyze) scylla.schedule'
}

# forget QUEUE: its schedules and their runs.
forget() {
  sql "delete from scylla.schedule where queue = '$1'"
  sql "delete from scylla.task where queue = '$1'"
  sql 'vacuum scylla.schedule'
  sql 'select scylla.refresh()' >/dev/null
}

# scheduler COLUMN: the scheduler's processor time in ms (ticks), or its private memory in kB (memory).
scheduler() {
  local pid
  pid=$(sql "select pid from pg_stat_activity where backend_type = 'scylla scheduler' and datname = current_database()")
  case $1 in
  ticks) awk '{ sub(/.*\) /, ""); print ($12 + $13) * 10 }' "/proc/$pid/stat" ;;
  memory) awk '/^RssAnon/ { print $2 }' "/proc/$pid/status" ;;
  esac
}

# ---- all due at once ----

measure_schedules() {
  local number=100000
  say schedules
  tidy
  register $number due 'every 1 hour' "date_trunc('second', clock_timestamp()) + interval '10 s'"
  sql 'select scylla.refresh()' >/dev/null
  until [ "$(sql "select sum(fired) from scylla.schedule where queue = 'due'")" = $number ]; do sleep 1; done
  sql "select count(*) / extract(epoch from max(created) - min(created)) from scylla.task where queue = 'due'" >"$work/ours"
  [ "$(sql "select count(distinct key) from scylla.task where queue = 'due'")" = $number ] || fail 'the schedules have not fired once each'
  absolute schedules 20000 '100,000 schedules, all due at once, fire'
  forget due
}

# ---- spread over a minute ----

measure_spread() {
  local number=100000 runs p50 p99 most
  say spread
  tidy
  register $number spread 'every 1 minute' "date_trunc('minute', clock_timestamp()) + interval '1 minute' + interval '0.6 ms' * n"
  # each keeps its place within the minute
  sql "update scylla.schedule set starts_at = next_run where queue = 'spread'"
  sql 'vacuum (analyze) scylla.schedule'
  sql 'select scylla.refresh()' >/dev/null
  sleep 135
  IFS='|' read -r runs p50 p99 most < <(sql "select runs, round(p[1]), round(p[2]), round(p[3])
    from (
      select count(*) as runs,
        percentile_cont('{0.5, 0.99, 1}'::float8[]) within group (order by late) as p
      from (
        select extract(epoch from created - split_part(key, '@', 2)::timestamptz)::float8 * 1000 as late
        from scylla.task where queue = 'spread') f) t")
  row spread "latest run in ms, 100,000 schedules a minute" "$most" - - - '1000' "$([ "$most" -le 1000 ] && echo ok || echo late)"
  echo "spread: $runs runs, later than expected by, in ms: p50 $p50, p99 $p99, the latest $most"
  forget spread
}

# ---- registered and not due ----

# The scheduler fires one schedule a second, with and without a million others.
measure_registered() {
  local number=1000000 before after ticks
  say registered
  tidy
  register 1 tick 'every 1 second' 'clock_timestamp()'
  sql 'select scylla.refresh()' >/dev/null
  sleep 3
  ticks=$(scheduler ticks)
  sleep 30
  before=$(($(scheduler ticks) - ticks))
  register $number later '0 0 1 1 *' "'2100-01-01'::timestamptz"
  sql 'select scylla.refresh()' >/dev/null
  sleep 3
  ticks=$(scheduler ticks)
  sleep 30
  after=$(($(scheduler ticks) - ticks))
  row registered 'processor ms in 30 s with 1,000,000 schedules that are not due' "$after" - - - $((before + 300)) \
    "$([ "$after" -le $((before + 300)) ] && echo ok || echo more)"
  echo "registered: processor time in 30 s: $before ms with one schedule, $after ms with 1,000,001; memory $(scheduler memory) kB"
  forget tick
  forget later
}
