//! The scenarios, in the order in which they run.

mod age;
mod clients;
mod clock;
mod copies;
mod crashes;
mod databases;
mod duties;
mod failover;
mod fuzz;
mod model;
mod scarce;

use crate::run::Scenario;

const fn scenario(
    name: &'static str,
    times: usize,
    pass: &'static str,
    torment: fn(&mut crate::run::Run) -> String,
) -> Scenario {
    Scenario { name, times, pass, torment, least: 0 }
}

/// A scenario that takes long however few faults it makes, or that meets something else in each
/// run.
const fn long(mut it: Scenario) -> Scenario {
    it.least = 5;
    it
}

/// In `pass`, "nothing lost or shared": no acknowledged task or result is lost, no task is leased
/// by two at a time, no stale token writes, the board agrees with the tables.
pub const SCENARIOS: &[Scenario] = &[
    scenario(
        "backend-kill",
        150,
        "backends killed with -9: nothing lost or shared, owning goes on within 2 s",
        crashes::kill_backends,
    ),
    scenario(
        "worker-kill",
        50,
        "schedulers and launchers killed with -9 or terminated: nothing lost or shared, back within 5 s",
        crashes::kill_workers,
    ),
    long(scenario(
        "sql-worker-kill",
        50,
        "processes of SQL tasks killed with -9: none begins more often than it has tries, back within 5 s",
        duties::kill_sql_workers,
    )),
    scenario(
        "postmaster-kill",
        50,
        "the postmaster killed with -9: nothing lost or shared",
        crashes::kill_postmasters,
    ),
    scenario(
        "immediate-stop",
        100,
        "stop -m immediate under load: nothing lost or shared",
        crashes::stop_at_once,
    ),
    scenario(
        "fast-stop",
        50,
        "stop -m fast under load, also while commits wait for a standby: down within 3 s, nothing lost or shared",
        crashes::stop_fast,
    ),
    long(scenario(
        "standby-promotion",
        20,
        "the primary of a synchronous standby killed under load: nothing lost or shared",
        failover::promote_synchronous,
    )),
    long(scenario(
        "lost-tail",
        20,
        "an asynchronous standby promoted: only answers of the tail are lost, no token is handed out twice",
        failover::promote_asynchronous,
    )),
    long(scenario(
        "recovery-to-a-time",
        5,
        "nothing lost or shared up to the time, nothing there from after it, later tokens dead",
        failover::recover_to_a_time,
    )),
    scenario(
        "cut-off-calls",
        240,
        "timeouts of 1 to 50 ms, cancelled statements, terminated sessions: nothing lost or shared",
        crashes::cut_calls_off,
    ),
    scenario(
        "silent-clients",
        500,
        "clients that end between own and return: owned again by the lease's end and 1 s, none early",
        clients::end_between_own_and_return,
    ),
    scenario(
        "stalled-workers",
        200,
        "workers stalled past their lease: every stale call is refused",
        clients::stall_past_the_lease,
    ),
    scenario(
        "shuffled-batches",
        175_000,
        "overlapping batches in shuffled order by 16 clients: no deadlock",
        clients::overlap_batches,
    ),
    long(scenario(
        "random-calls",
        500,
        "50 random calls of every kind, each answered as a naive model says",
        model::compare,
    )),
    long(scenario(
        "poison-tasks",
        100,
        "tasks that the scheduler cannot write: the others fire within 5 s",
        duties::poison,
    )),
    scenario(
        "extension-race",
        200,
        "CREATE and DROP EXTENSION beside callers: no crash, a scheduler only where it belongs",
        databases::race_extensions,
    ),
    scenario(
        "database-commands",
        150,
        "DROP, RENAME and TEMPLATE of a served database: each within 5 s, no scheduler left behind",
        databases::command_databases,
    ),
    scenario(
        "reload-storm",
        500,
        "reloads, changed settings and dropped roles under load: no restart, nothing lost or shared",
        crashes::change_settings,
    ),
    long(scenario(
        "fuzzed-calls",
        50_000,
        "random arguments for every function: no crash, no internal error, all in order after it",
        fuzz::call_everything,
    )),
    long(scenario(
        "sqlsmith",
        3_000,
        "queries at random from all that a role may see and call: no crash, no internal error of ours",
        fuzz::query_at_random,
    )),
    long(scenario(
        "clock-steps",
        100,
        "a clock that steps by up to an hour over changes of daylight saving: none early, none twice",
        clock::step,
    )),
    long(scenario(
        "crowd",
        1,
        "five times as many connections as the server takes: the scheduler is not affected",
        scarce::crowd_the_server,
    )),
    long(scenario(
        "few-processes",
        1,
        "more databases than processes: their callers do the work, the log says what is missing",
        scarce::use_up_the_processes,
    )),
    long(scenario(
        "little-memory",
        180,
        "specs of a gigabyte and arrays of millions: a clean error, no restart",
        scarce::exhaust_memory,
    )),
    long(scenario(
        "full-data",
        5,
        "no space for the tables: an error, nothing lost or shared when there is space again",
        scarce::fill_the_data,
    )),
    long(scenario(
        "full-log",
        5,
        "no space for the write-ahead log: nothing lost or shared when there is space again",
        scarce::fill_the_log,
    )),
    long(scenario(
        "full-notifications",
        1,
        "the queue of notifications full: no submit fails, leases expire and tasks fire within 5 s",
        scarce::fill_the_notification_queue,
    )),
    long(scenario(
        "dump-and-restore",
        3,
        "100,000 tasks, graphs, schedules: equal, nothing fires meanwhile",
        copies::dump_and_restore,
    )),
    long(scenario(
        "server-upgrade",
        1,
        "pg_upgrade from PostgreSQL 15 to 17: equal, nothing fires meanwhile, all is served",
        copies::upgrade_the_server,
    )),
    long(scenario(
        "held-snapshot",
        300,
        "a snapshot held for so many seconds: p99 at most 1.2 times that without it",
        age::hold_a_snapshot,
    )),
    long(scenario(
        "burnt-transactions",
        100,
        "ten thousand transaction ids each time, then freeze: no error, nothing lost or shared",
        age::burn_transactions,
    )),
    long(scenario(
        "soak",
        600,
        "so many seconds of full load: each process within 1 MB, indexes in order, tables within 1.5 times",
        age::soak,
    )),
];
