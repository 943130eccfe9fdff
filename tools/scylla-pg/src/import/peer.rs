//! The job tables that are known.

use clap::ValueEnum;

#[derive(Clone, Copy, ValueEnum)]
pub enum Peer {
    GraphileWorker,
    PgBoss,
    River,
    Oban,
    SolidQueue,
    Procrastinate,
}

/// What one of them is.
struct Facts {
    name: &'static str,
    schema: &'static str,
    /// The query that gives its jobs in the shape that `rows.sql` reads.
    jobs: &'static str,
    /// What changes for all its jobs.
    changes: &'static [&'static str],
}

const LEASE: &str =
    "a worker holds a task under a lease, 10 s unless timeout says more, and has to extend it";

impl Peer {
    fn facts(self) -> &'static Facts {
        match self {
            Peer::GraphileWorker => &Facts {
                name: "graphile-worker",
                schema: "graphile_worker",
                jobs: include_str!("graphile-worker.sql"),
                changes: &[
                    LEASE,
                    "retries: a pause is retry_interval, doubled each time, not e^attempt seconds",
                    "crontab: not in the table; call scylla.schedule for each line",
                ],
            },
            Peer::PgBoss => &Facts {
                name: "pg-boss",
                schema: "pgboss",
                jobs: include_str!("pg-boss.sql"),
                changes: &[
                    LEASE,
                    "expireInSeconds, keepUntil: a task has neither; both are in meta",
                    "pgboss.schedule: not taken; call scylla.schedule for each row",
                ],
            },
            Peer::River => &Facts {
                name: "river",
                schema: "public",
                jobs: include_str!("river.sql"),
                changes: &[
                    LEASE,
                    "retries: a pause is retry_interval, doubled each time, not attempt^4 seconds",
                    "periodic jobs: not in the table; call scylla.schedule for each",
                ],
            },
            Peer::Oban => &Facts {
                name: "oban",
                schema: "public",
                jobs: include_str!("oban.sql"),
                changes: &[
                    LEASE,
                    "retries: a pause is retry_interval, doubled each time, not 15 + 2^attempt seconds",
                    "cron: not in the table; call scylla.schedule for each entry",
                ],
            },
            Peer::SolidQueue => &Facts {
                name: "solid-queue",
                schema: "public",
                jobs: include_str!("solid-queue.sql"),
                changes: &[
                    LEASE,
                    "spec is the job as Active Job serializes it, with its arguments in \"arguments\"",
                    "retry_on, discard_on: not in the table; max_tries and retry_interval of the queue count",
                    "recurring tasks: not taken; call scylla.schedule for each",
                ],
            },
            Peer::Procrastinate => &Facts {
                name: "procrastinate",
                schema: "public",
                jobs: include_str!("procrastinate.sql"),
                changes: &[
                    LEASE,
                    "retry strategies: not in the table; max_tries and retry_interval of the queue count",
                    "periodic tasks: not in the table; call scylla.schedule for each",
                ],
            },
        }
    }

    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Where its tables are unless the user says otherwise.
    pub fn schema(self) -> &'static str {
        self.facts().schema
    }

    pub fn jobs(self) -> &'static str {
        self.facts().jobs
    }

    pub fn changes(self) -> &'static [&'static str] {
        self.facts().changes
    }
}
