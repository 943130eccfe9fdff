//! What the caller of each SQL function needs. A function without a line here does not compile.

use crate::storage::privileges::Privileges;

/// What a call needs before its arguments are read.
#[derive(Clone, Copy)]
pub enum Needs {
    /// Nothing: any role may call.
    Nothing,
    /// One of these privileges on each queue that the call is about, which the body checks. Here:
    /// on any queue at all.
    On(Privileges),
    /// One of these privileges on all queues.
    OnAll(Privileges),
    /// To be a superuser, or a member of the role that owns the extension.
    Ownership,
}
use Needs::{Nothing, On, OnAll, Ownership};

const SUBMIT: Privileges = Privileges::SUBMIT;
const WORK: Privileges = Privileges::WORK;
const CANCEL: Privileges = Privileges::CANCEL;
const LOOK: Privileges = Privileges::LOOK;
const MANAGE: Privileges = Privileges::MANAGE;

/// All functions, by the names of their bodies.
const FUNCTIONS: &[(&str, Needs)] = &[
    ("submit", On(SUBMIT)),
    ("submit_many", On(SUBMIT)),
    ("submit_tasks", On(SUBMIT)),
    ("delay_message", On(SUBMIT)),
    ("delay_messages", On(SUBMIT)),
    ("cancel_message", On(SUBMIT.with(CANCEL))),
    ("own_tasks", On(WORK)),
    ("own_task", On(WORK)),
    ("extend", On(WORK)),
    ("extend_tasks", On(WORK)),
    ("return_task", On(WORK)),
    ("return_tasks", On(WORK)),
    ("return_many", On(WORK)),
    ("heartbeat", On(WORK)),
    ("own_any", On(WORK)),
    ("about", Nothing),
    ("wait_for_work", On(WORK)),
    ("wait_for_any", On(WORK)),
    ("wait_for_event", On(WORK)),
    ("cancel", On(CANCEL)),
    ("cancel_tasks", On(CANCEL)),
    ("cancel_group", On(CANCEL)),
    ("delay", On(CANCEL)),
    ("delete_tasks", On(CANCEL)),
    ("cancel_matching", On(CANCEL)),
    ("delete_matching", On(CANCEL)),
    ("task", On(LOOK)),
    ("why", On(LOOK)),
    ("list_tasks", On(LOOK)),
    ("task_id", On(LOOK)),
    ("wait_for_task", On(LOOK)),
    ("add_dependencies", On(LOOK)),
    ("resubmit", On(MANAGE)),
    ("resubmit_matching", On(MANAGE)),
    ("configure_queue", On(MANAGE)),
    ("reset_queue", On(MANAGE)),
    ("pause", On(MANAGE)),
    ("resume", On(MANAGE)),
    ("schedule", On(SUBMIT)),
    ("run_sql", On(SUBMIT)),
    ("schedule_sql", On(SUBMIT)),
    ("cron_schedule", On(SUBMIT)),
    ("cron_alter", On(SUBMIT)),
    // Of one's own jobs.
    ("cron_unschedule", On(SUBMIT)),
    ("alter_schedule", On(SUBMIT)),
    // The functions that they call check what the caller may do.
    ("cron_write_job", Nothing),
    ("cron_delete_run", Nothing),
    // With manage, those of other roles.
    ("unschedule", On(SUBMIT.with(MANAGE))),
    ("coming_runs", On(LOOK)),
    ("critical_only", OnAll(MANAGE)),
    ("release_worker", OnAll(MANAGE)),
    ("drain_worker", OnAll(MANAGE)),
    ("drop_queue", OnAll(MANAGE)),
    ("open", OnAll(MANAGE)),
    ("grant", Ownership),
    ("revoke", Ownership),
    ("fire_schedules", Ownership),
    ("enable_cron_api", Ownership),
    ("disable_cron_api", Ownership),
    ("import_cron_jobs", Ownership),
    ("register_worker", Nothing),
    // It tells to update the extension.
    ("outdated", Nothing),
    // Manage on all queues, which its body checks once the extension is of the library's version.
    ("refresh", Nothing),
    // It reads what was changed, as the tables' owner.
    ("note_identity", Nothing),
    ("retry_worst_case", Nothing),
    ("next_runs", Nothing),
    // Of the statements of a search, which run as the tables' owner.
    ("may_own", Ownership),
    ("group_may_run", Ownership),
    // The views' own. They show what the caller may look at.
    ("leases", Nothing),
    ("owned", Nothing),
    ("is_owned", Nothing),
    ("front", Nothing),
    ("cron_sees_jobs_of", Nothing),
    ("cron_runs", Nothing),
    ("oldest_ready", Nothing),
    ("queue_numbers", Nothing),
    ("health", Nothing),
    ("known_workers", Nothing),
    ("may_look", Nothing),
    ("first_queue", Nothing),
    ("last_queue", Nothing),
    ("group_hash", Nothing),
    ("role_in", Nothing),
    ("role_out", Nothing),
    ("may_act_as", Nothing),
    ("database_in", Nothing),
    ("database_out", Nothing),
    // For the statements that end an ownership. It reads its arguments only.
    ("errors_with", Nothing),
];

/// The queue that a call names, for the error of a role that has no privilege at all.
#[derive(Clone, Copy)]
pub enum NamedQueue {
    /// The argument of this number; they count from 0.
    Argument(usize),
    /// That of the task that this argument names.
    Task(usize),
    /// That of the SQL commands.
    Sql,
    None,
}
use NamedQueue::{Argument, Sql, Task};

/// The functions that name a queue.
const QUEUES: &[(&str, NamedQueue)] = &[
    ("submit", Argument(0)),
    ("submit_many", Argument(0)),
    ("delay_message", Argument(2)),
    ("delay_messages", Argument(0)),
    ("cancel_message", Argument(0)),
    ("own_tasks", Argument(1)),
    ("wait_for_work", Argument(0)),
    ("cancel_group", Argument(0)),
    ("task_id", Argument(0)),
    ("configure_queue", Argument(0)),
    ("reset_queue", Argument(0)),
    ("pause", Argument(0)),
    ("resume", Argument(0)),
    ("schedule", Argument(2)),
    ("own_task", Task(0)),
    ("extend", Task(0)),
    ("return_task", Task(0)),
    ("cancel", Task(0)),
    ("delay", Task(0)),
    ("task", Task(0)),
    ("why", Task(0)),
    ("wait_for_task", Task(0)),
    ("run_sql", Sql),
    ("schedule_sql", Sql),
    ("cron_schedule", Sql),
    ("cron_alter", Sql),
    ("cron_unschedule", Sql),
];

/// The queue that a call of a function names.
pub const fn queue_of(function: &str) -> NamedQueue {
    let mut at = 0;
    while at < QUEUES.len() {
        if is_same(QUEUES[at].0.as_bytes(), function.as_bytes()) {
            return QUEUES[at].1;
        }
        at += 1;
    }
    NamedQueue::None
}

/// What a function needs.
pub const fn of(function: &str) -> Needs {
    let mut at = 0;
    while at < FUNCTIONS.len() {
        if is_same(FUNCTIONS[at].0.as_bytes(), function.as_bytes()) {
            return FUNCTIONS[at].1;
        }
        at += 1;
    }
    panic!("the function has no line in FUNCTIONS")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
