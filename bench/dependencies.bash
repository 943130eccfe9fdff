# The measurements of dependencies. To be sourced after measure.bash.

# tasks QUEUE N MEMBERS: SQL for an array of N tasks; MEMBERS is SQL that adds to each, of its number i.
tasks() {
  echo "(select jsonb_agg(jsonb_build_object('queue', '$1', 'id', md5('$1' || i)::uuid) || $3) from generate_series(1, $2) i)"
}

# ---- fan-in ----

# Tasks with one dependent of all of them.
submit_fan() { # submit_fan QUEUE N
  sql "with new as (
      select array_agg(id) as ids
      from scylla.submit_tasks((select jsonb_agg('{\"queue\": \"$1\"}'::jsonb) from generate_series(1, $2)))
    )
    select scylla.submit('$1.follower', after => ids) from new" >/dev/null
}

measure_fanin() {
  local number=50000 dependents rate round
  for ((round = 1; round <= rounds; round++)); do
    say "fanin, round $round of $rounds"
    submit_fan fan "$number"
    tidy
    rate=$(bench fan 16 -t $((number / 100 / 16 + 1)))
    # the scheduler counts down right after the last commit if two commits met at the end
    sleep 1
    dependents=$(sql "select count(*) from scylla.own_tasks('bench', 'fan.follower', 10)")
    [ "$dependents" = 1 ] || fail "there are $dependents dependents, not one"
    calculate "$rate * $number / ($number / 100 / 16 + 1) / 16"
    echo
  done >"$work/ours"
  absolute fanin 10000 'returns by 100, 16 clients; one dependent of 50,000'
}

# ---- a shared dependent ----

fill_shared() {
  local missing=$(($1 - $(sql "select count(*) from scylla.task where queue = 'shared'")))
  [ "$missing" -le 0 ] || submit_fan shared "$missing"
}

measure_shared() {
  compare shared 0.60 16 1 shared-one scylla-one 'own + return singly, 16 clients, one dependent; without'
}

# ---- a chain ----

measure_chain() {
  local number=10000 round
  for ((round = 1; round <= rounds; round++)); do
    say "chain, round $round of $rounds"
    sql "select count(*) from scylla.submit_tasks($(tasks "chain$round" "$number" \
      "case when i = 1 then '{}' else jsonb_build_object('after', jsonb_build_array(md5('chain$round' || i - 1)::uuid)) end"))" >/dev/null
    tidy
    bench chain 1 -t "$number" -D round="$round"
    [ "$(sql "select count(*) from scylla.task where queue = 'chain$round'")" = 0 ] || fail 'the chain was not run to its end'
  done >"$work/ours"
  absolute chain 1000 'links of a chain of 10,000, one client'
}

# ---- a graph ----

measure_graph() {
  local number=100000 round after
  rm -f "$work/ours" "$work/theirs"
  for ((round = 1; round <= rounds; round++)); do
    say "graph, round $round of $rounds"
    after="case when i <= 3 then '{}' else jsonb_build_object('after', jsonb_build_array(
      md5('graph$round' || i - 1)::uuid, md5('graph$round' || i / 2)::uuid, md5('graph$round' || i / 3)::uuid)) end"
    submit_timed "graph$round" "$after" >>"$work/ours"
    submit_timed "flat$round" "'{}'::jsonb" >>"$work/theirs"
  done
  report graph 0.33 1 'tasks submitted in a batch of 100,000 with 300,000 edges; without'
}

# submit_timed QUEUE MEMBERS: prints tasks per second of one batch; the array is made before.
submit_timed() {
  local milliseconds
  tidy
  milliseconds=$(sql <<SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
create temp table batch as select $(tasks "$1" 100000 "$2") as tasks;
\timing on
select count(*) from batch, scylla.submit_tasks(batch.tasks);
SQL
  )
  calculate "100000 * 1000 / $milliseconds"
  echo
  sql "select scylla.delete_tasks(array(select id from scylla.task where queue = '$1'))" >/dev/null
}
