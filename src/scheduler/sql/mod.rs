//! SQL commands: the scheduler of a database owns the tasks of the queue `sql` and assigns each to
//! a process that runs it as its role. The process tells what became of the command, and the
//! scheduler returns the task.
//!
//! * `begin`: owning tasks and assigning them.
//! * `end`: returning tasks, and ending commands.
//! * `exchange`: what the two tell each other.
//! * `processes`: the processes, from the scheduler's side.
//! * `tasks`: what the scheduler remembers of the tasks, and its turns.
//! * `worker`: the process.

mod begin;
mod end;
mod exchange;
mod processes;
mod tasks;
mod worker;

pub use processes::Orphans;
pub use tasks::SqlTasks;
