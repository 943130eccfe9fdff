//! The scenarios, in the order in which they run.

mod clients;
mod crashes;
mod databases;

use crate::run::Scenario;

const fn scenario(
    name: &'static str,
    times: usize,
    pass: &'static str,
    torment: fn(&mut crate::run::Run) -> String,
) -> Scenario {
    Scenario { name, times, pass, torment }
}

/// In `pass`, "nothing lost or shared": no acknowledged task or result is lost, no task is leased by
/// two at a time, no stale token writes, the board agrees with the tables.
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
        "stop -m fast under load: down within 3 s, nothing lost or shared",
        crashes::stop_fast,
    ),
    scenario(
        "cut-off-calls",
        100,
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
        5_000,
        "overlapping batches in shuffled order by 16 clients: no deadlock",
        clients::overlap_batches,
    ),
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
];
