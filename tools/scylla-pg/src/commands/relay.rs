//! `relay`

use crate::failure::Failure;
use crate::relay::{OUTBOX, Relay as Carrier};
use clap::Args;
use std::io::{self, Write};
use std::time::Duration;

/// Carry tasks from the outbox of another database to scylla
#[derive(Args)]
#[command(after_help = "\
The database of --from has the outbox, which is SQL without an extension, and works on servers that do
not load scylla. Applications submit there, in their transactions. The relay carries each task once,
in the order of the commits, until you end it. Where more than one relay has the same --name, one of
them carries, and another goes on when it ends.

Examples:
  scylla-pg relay --print-sql | psql -1 postgresql://owner@app.example.com/app
  scylla-pg relay -d postgresql://relay@scylla.example.com/jobs --from postgresql://relay@app.example.com/app
  scylla-pg relay -d dbname=jobs --from dbname=app --once")]
pub struct Relay {
    /// Database with the outbox: a name, postgresql://…, or host=… dbname=…
    #[arg(long, value_name = "CONNECTION", required_unless_present = "print_sql")]
    from: Option<String>,
    /// Name of the outbox, of its own for each: letters, digits and _
    #[arg(long, default_value = "outbox", value_parser = name)]
    name: String,
    /// Milliseconds from one look to the next while nothing is submitted
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    poll_interval: u64,
    /// Seconds that a carried row stays at least
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    keep: u64,
    /// Carry what is there, and end
    #[arg(long)]
    once: bool,
    /// Print the SQL file of the outbox
    #[arg(long, conflicts_with_all = ["from", "once"])]
    print_sql: bool,
}

/// A part of names of tables.
fn name(text: &str) -> Result<String, String> {
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    if (1..=40).contains(&text.len()) && text.chars().all(is_letter) {
        return Ok(text.to_owned());
    }
    Err("1 to 40 of a to z, 0 to 9 and _ are needed".to_owned())
}

impl Relay {
    pub async fn run(self, dbname: Option<String>, as_json: bool) -> Result<(), Failure> {
        let Some(from) = self.from else {
            io::stdout().write_all(OUTBOX.as_bytes())?;
            return Ok(());
        };
        let relay = Carrier {
            from,
            to: dbname,
            name: self.name,
            poll_interval: Duration::from_millis(self.poll_interval),
            round: Duration::from_secs(self.keep),
            as_json,
        };
        if self.once { relay.run_once().await } else { relay.run().await }
    }
}
