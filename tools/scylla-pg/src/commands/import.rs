//! `import`

use crate::connection;
use crate::failure::Failure;
use crate::import::{Done, Options, Peer, Source, carry};
use crate::output::{Table, plain};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{self, Write};
use tokio_postgres::error::SqlState;

/// How many refused jobs are named.
const NAMED: usize = 10;

/// Take over the unfinished jobs of another job table
#[derive(Args)]
#[command(after_help = "\
Stop the workers of the other system, and what submits there, then import. Each job becomes one task,
however often you run the command, and after it was interrupted: run it again, and it goes on. The job
table is only read. Drop it when you need no way back.

Jobs that run there are counted and left, and so are those that failed for good. What changes for a job
is listed: read it with --dry-run first. Where each job came from is in the task's meta.

Examples:
  scylla-pg import --from graphile-worker --dry-run
  scylla-pg import --from river -d dbname=jobs --source postgresql://reader@app.example.com/app
  scylla-pg import --from oban --source dbname=app --schema private --json")]
pub struct Import {
    /// System whose jobs they are
    #[arg(long, value_name = "SYSTEM", value_enum)]
    from: Peer,
    /// Database with the jobs; without it, that of --dbname
    #[arg(long, value_name = "CONNECTION")]
    source: Option<String>,
    /// Schema with the job tables; without it, the system's usual one
    #[arg(long)]
    schema: Option<String>,
    /// Priority of a task whose job has the system's default one
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i64).range(0..=4_294_967_295))]
    base_priority: i64,
    /// Take jobs that run, too, after their workers were killed
    #[arg(long)]
    running: bool,
    /// Only count the jobs, and list what would change for them
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub async fn run(self, dbname: Option<String>, as_json: bool) -> Result<(), Failure> {
        let schema = self.schema.as_deref().unwrap_or(self.from.schema());
        let options = Options {
            peer: self.from,
            schema,
            base_priority: self.base_priority,
            running: self.running,
        };
        let source = Source::open(self.source.as_deref().or(dbname.as_deref()), &options).await?;
        let unknown = |failure| no_table(failure, self.from, schema);
        let queues = source.queues().await.map_err(unknown)?;
        let notes = source.notes().await?;
        let mut out = io::stdout();
        let (mut table, mut changes) =
            (Table::new("QUEUE >TASKS >RUNNING >LEFT"), Table::new("QUEUE >JOBS CHANGE"));
        for queue in &queues {
            if as_json {
                let line = json!({ "queue": queue.name, "tasks": queue.taken,
                    "running": queue.running, "left": queue.left });
                writeln!(out, "{line}")?;
            } else {
                let cells = [queue.taken, queue.running, queue.left].map(|it| it.to_string());
                table.row([plain(&queue.name).into_owned()].into_iter().chain(cells));
            }
        }
        for note in &notes {
            if as_json {
                let line = json!({ "queue": note.queue, "jobs": note.jobs, "change": note.text });
                writeln!(out, "{line}")?;
            } else {
                let name = plain(&note.queue).into_owned();
                changes.row([name, note.jobs.to_string(), plain(&note.text).into_owned()]);
            }
        }
        for text in self.from.changes() {
            if as_json {
                writeln!(out, "{}", json!({ "change": text }))?;
            } else {
                changes.row(["*".to_owned(), String::new(), (*text).to_owned()]);
            }
        }
        if !as_json {
            table.print(&mut out)?;
            writeln!(out)?;
            changes.print(&mut out)?;
        }
        if self.dry_run {
            return Ok(());
        }
        let mut target = connection::connect(dbname.as_deref()).await?;
        let all = queues.iter().map(|queue| queue.taken as u64).sum();
        let bar = ProgressBar::new(all).with_style(style());
        let done = carry(&source, &mut target, |seen| bar.set_position(seen)).await;
        bar.finish_and_clear();
        match done {
            Ok(done) => self.report(&done, &mut out, as_json),
            Err(failure) => Err(crate::explain::explain(&target, failure).await),
        }
    }

    fn report(&self, done: &Done, out: &mut impl Write, as_json: bool) -> Result<(), Failure> {
        let Done { imported, earlier, refused } = done;
        if as_json {
            let refused: Vec<_> =
                refused.iter().map(|(id, error)| json!({ "id": id, "error": error })).collect();
            let line = json!({ "imported": imported, "earlier": earlier, "refused": refused });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "\n{imported} imported, {earlier} by an earlier run")?;
        }
        if refused.is_empty() {
            return Ok(());
        }
        let named = refused.iter().take(NAMED);
        let named: Vec<_> =
            named.map(|(id, error)| format!("job {}: {}", plain(id), plain(error))).collect();
        Err(Failure::new(format!("{} jobs were refused", refused.len()))
            .detail(named.join("\n        "))
            .hint("They are where they were. Run the import again when the cause is gone."))
    }
}

/// Says which tables were looked for.
fn no_table(failure: Failure, peer: Peer, schema: &str) -> Failure {
    let name = peer.name();
    match &failure.code {
        Some(code) if *code == SqlState::UNDEFINED_TABLE => {
            Failure::new(format!("no jobs of {name} in schema \"{schema}\""))
                .detail(format!("The server says: {}.", failure.message))
                .hint("Name the database by --source, and the schema by --schema.")
        }
        Some(code) if *code == SqlState::UNDEFINED_COLUMN => {
            Failure::new(format!("this version of {name} has other tables"))
                .detail(format!("The server says: {}.", failure.message))
                .hint("Bring them to a later version by its own migrations.")
        }
        _ => failure,
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:40} {human_pos} of {human_len}, {eta} left")
        .expect("the template is correct")
}
