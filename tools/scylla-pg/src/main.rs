//! `scylla-pg`: the command line of scylla.

mod commands;
mod connection;
mod explain;
mod failure;
mod import;
mod listen;
mod metrics;
mod output;
mod relay;
mod web;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use commands::import::Import;
use commands::metrics::Metrics;
use commands::web::Web;
use commands::{bulk, doctor, list, submit, top, why};
use failure::Failure;
use std::io;
use std::process::ExitCode;

const CONNECTING: &str = "\
Connection:
  As psql: --dbname is the name of a database, a URI or a conninfo string; for the rest,
  PGHOST, PGPORT, PGUSER, PGPASSWORD, PGSSLMODE and their kin, and ~/.pgpass.

Exit status:
  0  done
  1  the server refused, or could not be reached; doctor: something is wrong
  2  wrong arguments

Examples:
  scylla-pg submit mail '{\"to\": \"joe@example.com\"}' --key joe
  scylla-pg why 01990000-0000-7000-8000-000000000000
  scylla-pg list --queue mail --status aborted
  scylla-pg retry --queue mail --status aborted
  scylla-pg -d postgresql://admin@db.example.com/jobs doctor";

/// Submits, lists, cancels and repeats tasks of scylla, and finds what is wrong
#[derive(Parser)]
#[command(name = "scylla-pg", version, after_help = CONNECTING, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Global {
    /// Database to connect to: a name, postgresql://…, or host=… dbname=…
    #[arg(short, long, global = true, value_name = "CONNECTION")]
    dbname: Option<String>,
    /// Print JSON, one object on each line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Submit(submit::Submit),
    Why(why::Why),
    List(list::List),
    Cancel(bulk::Cancel),
    Retry(bulk::Retry),
    Delete(bulk::Delete),
    Top(top::Top),
    Import(Import),
    Relay(commands::relay::Relay),
    Doctor(doctor::Doctor),
    Metrics(Metrics),
    Web(Box<Web>),
    /// Print what completes arguments in a shell
    #[command(after_help = "\
Examples:
  scylla-pg completion bash > ~/.local/share/bash-completion/completions/scylla-pg
  scylla-pg completion zsh > ~/.zfunc/_scylla-pg
  scylla-pg completion fish > ~/.config/fish/completions/scylla-pg.fish")]
    Completion {
        shell: Shell,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => Err(error.into()),
    };
    let Err(failure) = result else { return ExitCode::SUCCESS };
    if !failure.message.is_empty() {
        eprintln!("{failure}");
    }
    ExitCode::from(failure.status)
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let Global { dbname, json } = cli.global;
    if let Command::Completion { shell } = cli.command {
        clap_complete::generate(shell, &mut Cli::command(), "scylla-pg", &mut io::stdout());
        return Ok(());
    }
    // It waits for a server that is not there yet.
    if let Command::Metrics(metrics) = cli.command {
        return metrics.run(dbname).await;
    }
    if let Command::Web(web) = cli.command {
        return web.run(dbname).await;
    }
    if let Command::Import(import) = cli.command {
        return import.run(dbname, json).await;
    }
    if let Command::Relay(relay) = cli.command {
        return relay.run(dbname, json).await;
    }
    let connect = || connection::connect(dbname.as_deref());
    // What is wrong with the arguments is said before connecting.
    match &cli.command {
        Command::Submit(submit) => submit.check()?,
        Command::Cancel(cancel) => cancel.which.check()?,
        Command::Retry(retry) => retry.which.check()?,
        Command::Delete(delete) => delete.which.check()?,
        _ => {}
    }
    let client = connect().await?;
    let result = match cli.command {
        Command::Submit(submit) => submit.run(&client, json).await,
        Command::Why(why) => why.run(&client, json).await,
        Command::List(list) => list.run(&client, json).await,
        Command::Cancel(cancel) => cancel.run(&client, json).await,
        Command::Retry(retry) => retry.run(&client, json).await,
        Command::Delete(delete) => delete.run(&client, json).await,
        Command::Top(top) => top.run(&client, connect, json).await,
        Command::Doctor(doctor) => return doctor.run(&client, json).await,
        Command::Import(_)
        | Command::Metrics(_)
        | Command::Relay(_)
        | Command::Web(_)
        | Command::Completion { .. } => {
            unreachable!("they have ended before")
        }
    };
    match result {
        Err(failure) => Err(explain::explain(&client, failure).await),
        done => done,
    }
}
