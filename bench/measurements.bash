# The measurements. To be sourced after measure.bash.

measure_pair() {
  compare pair 0.60 16 1 scylla-one update 'own + return singly, 16 clients; one UPDATE by key'
}

measure_single() {
  compare single 2.50 16 1 scylla-one plain-one 'own + return singly, 16 clients; plain queue'
}

measure_batch() {
  compare batch 2.50 4 1000 scylla-many plain-many 'own + return by 1,000, 4 clients; plain queue'
}

# ---- heartbeat ----

measure_heartbeat() {
  local round number=10000
  say heartbeat
  fill_scylla $((number * 3))
  fill_plain $((number * 2))
  sql "truncate reference.held; truncate plain.held"
  sql "insert into reference.held select row_number() over (), id, token
    from scylla.own_tasks('bench', 'bench', $number, timeout => '1 day')"
  sql "insert into plain.held select row_number() over (), id, token from plain.own('bench', 'bench', $number)"
  sql 'vacuum analyze'
  sql checkpoint
  rm -f "$work/ours" "$work/theirs"
  for ((round = 1; round <= rounds; round++)); do
    slice scylla-extend 16 >>"$work/ours"
    slice plain-extend 16 >>"$work/theirs"
  done
  report heartbeat - 1 'extend singly, 16 clients; plain queue'
  for ((round = 1; round <= rounds; round++)); do slice scylla-extend-many 4; done >"$work/ours"
  row heartbeat 'extend by 1,000, 4 clients' "$(calculate "$(median <"$work/ours") * 1000")" - - - - -

  # Only the workers write from here on.
  sql "alter system set autovacuum = off"
  sql "alter system set scylla.persist_leases_after = '1 h'"
  sql 'select pg_reload_conf()' >/dev/null
  sql 'vacuum analyze'
  sql checkpoint
  sleep 2
  count_writes "owning $number tasks" scylla-own "$number"
  count_writes "extending $number leases" scylla-extend "$number"
  sql 'alter system reset all'
  sql 'select pg_reload_conf()' >/dev/null
  # a task still leased would be counted as ready by the next filling
  sql 'select scylla.cancel_tasks(array(select id from scylla._leases()))' >/dev/null
  echo
}

# count_writes WHAT SCRIPT N: the transaction ids and the WAL of N transactions of a script.
count_writes() {
  local before after
  before=$(sql 'select pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot())')
  bench "$2" 10 -t $(($3 / 10)) >/dev/null
  after=$(sql 'select pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot())')
  sql "select format('%s: %s transaction ids, %s bytes of WAL (%s each)', '$1', $((${after#*|} - ${before#*|})),
    w.bytes, round(w.bytes / $3, 2)) from (select pg_wal_lsn_diff('${after%|*}', '${before%|*}')) w (bytes)"
  if [ "${after%|*}" != "${before%|*}" ] && sql 'create extension if not exists pg_walinspect' 2>/dev/null; then
    sql "select format('  %s %s: %s records, %s bytes', resource_manager, record_type, count(*), sum(record_length))
      from pg_get_wal_records_info('${before%|*}', '${after%|*}')
      group by resource_manager, record_type order by sum(record_length) desc"
  fi
}

# ---- snapshot ----

measure_snapshot() {
  local round side
  for side in scylla plain; do
    rm -f "$work"/{many,one}{,-held}
    for ((round = 1; round <= (rounds + 1) / 2; round++)); do
      say "snapshot, $side, round $round of $(((rounds + 1) / 2))"
      pass "$side" ''
      hold_snapshot
      pass "$side" -held
      release_snapshot
    done
    local wanted=0.80
    [ $side = scylla ] || wanted=-
    cp "$work/many-held" "$work/ours"
    cp "$work/many" "$work/theirs"
    report snapshot $wanted 1000 "$side: 300,000 by 1,000, snapshot held; without it"
    cp "$work/one-held" "$work/ours"
    cp "$work/one" "$work/theirs"
    report snapshot $wanted 1 "$side: singly after them, snapshot held; without it"
  done
}

# pass SIDE SUFFIX: 300,000 tasks are submitted, owned and returned by 1,000, in three parts so that
# submitting is not measured; then a slice one at a time.
pass() {
  tidy
  "fill_$1" 20000
  bench "$1-many" 4 -t 3 >/dev/null
  for _ in 1 2 3; do
    "fill_$1" 108000
    bench "$1-many" 4 -t 25
  done | awk '{ time += 1 / $1 } END { print NR / time }' >>"$work/many$2"
  prepare "$1-one" 16 1
  slice "$1-one" 16 >>"$work/one$2"
}

hold_snapshot() {
  coproc HOLDER { "$SCYLLA_BIN/psql" -XqAt 2>&1; }
  echo 'begin isolation level repeatable read; select count(*) >= 0 from pg_class;' >&"${HOLDER[1]}"
  local answer=
  read -r -t 60 -u "${HOLDER[0]}" answer || true
  [ "$answer" = t ] || fail "the snapshot could not be taken: $answer"
}

release_snapshot() {
  local holder=$HOLDER_PID
  exec {HOLDER[1]}>&-
  wait "$holder" || true
}

# ---- memory ----

measure_memory() {
  sql "select format('memory: %s kB for a board of %s slots, %s bytes a slot', s.size / 1024, b.size, s.size / b.size)
    from pg_shmem_allocations s, (select current_setting('scylla.board_size')::bigint) b (size)
    where s.name = 'scylla'"
}
