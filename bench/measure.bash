# What all measurements share: slices of pgbench, medians, the table. To be sourced.

sql() { "$SCYLLA_BIN/psql" -XqAt -v ON_ERROR_STOP=1 ${1:+-c "$1"}; }

say() { echo "bench: $*" >&2; }

# bench SCRIPT CLIENTS OPTION...: runs a script of bench/script; prints transactions per second.
bench() {
  local script=$1 clients=$2
  shift 2
  "$SCYLLA_BIN/pgbench" -n -M prepared -f "bench/script/$script.sql" -c "$clients" -j 2 "$@" >"$work/pgbench" 2>&1 ||
    { grep -m 3 error "$work/pgbench" >&2 || true; fail "$script failed (did the queue run dry?)"; }
  sed -n 's/^tps = \([0-9.]*\) .*/\1/p' "$work/pgbench"
}

calculate() { awk "BEGIN { printf \"%.${2:-0}f\", ($1) }"; }

median() { sort -g | awk '{ a[NR] = $1 } END { print (a[int((NR + 1) / 2)] + a[int(NR / 2) + 1]) / 2 }'; }

# ---- filling the queues, so that they never run dry ----

fill_scylla() { # fill_scylla N: until so many tasks are ready
  local missing=$(($1 - $(sql "select count(*) from scylla.task where queue = 'bench'")))
  [ "$missing" -le 0 ] || bench submit 2 -t $((missing / 2000 + 1)) >/dev/null
}
fill_plain() {
  local missing=$(($1 - $(sql "select count(*) from plain.job where status = 'ready'")))
  [ "$missing" -le 0 ] || sql "select plain.submit('bench', $missing)" >/dev/null
}
fill_update() { sql 'select reference.reload(100000)' >/dev/null; }

tidy() { sql 'vacuum analyze'; sql 'checkpoint'; }

# ---- comparing two sides by turns ----

declare -A rate=() # of a script: the highest yet, transactions per second

# prepare SCRIPT CLIENTS SIZE: fills its queue with what a slice may take, tasks of SIZE a transaction.
# A first slice, which does not count, tells how fast it is.
prepare() {
  local script=$1 clients=$2 size=$3
  if [ -z "${rate[$script]:-}" ]; then
    "fill_${script%%-*}" $((clients * 100 * size + 20000))
    rate[$script]=$(bench "$script" "$clients" -t $((size > 1 ? 10 : 100)))
    rate[$script]=$(calculate "2 * ${rate[$script]}")
  fi
  "fill_${script%%-*}" "$(calculate "${rate[$script]} * 1.3 * $seconds * $size + 2 * $clients * $size")"
}

# note_rate SCRIPT RATE: a rate higher than expected needs a fuller queue the next time.
note_rate() { rate[$1]=$(calculate "$2 > ${rate[$1]} ? $2 : ${rate[$1]}"); }

# slice SCRIPT CLIENTS: prints transactions per second.
slice() { bench "$1" "$2" -T "$seconds"; }

# compare NAME WANTED CLIENTS SIZE SCRIPT REFERENCE WHAT: both by turns; a row of the table.
compare() {
  local name=$1 wanted=$2 clients=$3 size=$4 script=$5 reference=$6 what=$7 round
  rm -f "$work/ours" "$work/theirs"
  for ((round = 1; round <= rounds; round++)); do
    say "$name, round $round of $rounds"
    tidy
    prepare "$script" "$clients" "$size"
    prepare "$reference" "$clients" "$size"
    slice "$script" "$clients" >>"$work/ours"
    slice "$reference" "$clients" >>"$work/theirs"
    note_rate "$script" "$(tail -n 1 "$work/ours")"
    note_rate "$reference" "$(tail -n 1 "$work/theirs")"
  done
  report "$name" "$wanted" "$size" "$what"
}

# ---- the table ----

# report NAME WANTED SIZE WHAT: a row of the rates in $work/ours and $work/theirs, a line a round.
# The ratio is the median of the rounds' ratios: both sides of one round had the same machine.
report() {
  local ours theirs ratio least most verdict=-
  paste "$work/ours" "$work/theirs" | awk '{ print $1 / $2 }' | sort -g >"$work/ratios"
  ours=$(median <"$work/ours") theirs=$(median <"$work/theirs") ratio=$(median <"$work/ratios")
  least=$(head -n 1 "$work/ratios") most=$(tail -n 1 "$work/ratios")
  [ "$2" = - ] || verdict=$(awk "BEGIN { print ($ratio >= $2 ? \"ok\" : \"low\") }")
  row "$1" "$4" "$(calculate "$ours * $3")" "$(calculate "$theirs * $3")" "$(calculate "$ratio" 2)" \
    "$(calculate "$least" 2)-$(calculate "$most" 2)" "$2" "$verdict"
}

# absolute NAME WANTED WHAT: a row of rates without a reference, compared only with the target.
absolute() {
  local rate
  rate=$(median <"$work/ours")
  row "$1" "$3" "$(calculate "$rate")" - - - "$2" "$(awk "BEGIN { print ($rate >= $2 ? \"ok\" : \"low\") }")"
}

row() {
  local IFS=$'\t'
  echo "$*" >>"$work/table"
}

print_table() {
  [ -s "$work/table" ] || return 0
  row_format='%-12s %-52s %12s %12s %7s %12s %7s %s\n'
  # shellcheck disable=SC2059
  printf "$row_format" measurement what rate/s reference/s ratio 'all rounds' wanted ''
  while IFS=$'\t' read -r -a cells; do printf "$row_format" "${cells[@]}"; done <"$work/table"
}

machine() {
  echo "$(date -u '+%Y-%m-%d %H:%M UTC'), scylla $(git describe --always --dirty 2>/dev/null || echo '?'), $("$SCYLLA_BIN/postgres" -V)"
  echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo), $(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1048576 }' /proc/meminfo), Linux $(uname -r), $(stat -f -c %T "$dir")"
  echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)$(awk -v cores="$(nproc)" '$1 > 0.3 * cores { print " (something else is running: take no number from this)" }' /proc/loadavg)"
  echo "$seconds s a slice, $rounds rounds; the plain queue's key: $key"
  echo
}
