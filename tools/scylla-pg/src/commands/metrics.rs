//! `metrics`

use crate::failure::Failure;
use crate::listen::{LIMITS, accept};
use crate::metrics::{Exporter, MAX_NAMES, router};
use clap::Args;
use tokio::net::TcpListener;

/// Serve the numbers of the queues to Prometheus
#[derive(Args)]
#[command(after_help = "\
Serves until you interrupt it, also when the database does not answer: then scylla_up is 0.

  /metrics  the numbers, at most a second old
  /healthz  status 200 when the database answers, else 503

Everyone who reaches the address may read the names and the numbers of the queues. A member of
pg_monitor sees all queues. To see schedules, it needs the privilege look.

Examples:
  scylla-pg metrics
  scylla-pg -d postgresql://monitor@db.example.com/jobs metrics --listen 0.0.0.0:9733
  curl -s http://127.0.0.1:9733/metrics | promtool check metrics")]
pub struct Metrics {
    /// Address and port to serve; port 0: any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9733")]
    listen: String,
    /// Queues, and schedules, to tell of; of more, the first by name
    #[arg(long, value_name = "N", default_value_t = MAX_NAMES, value_parser = max_names)]
    max_names: usize,
}

fn max_names(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|it| (1..=100_000).contains(it));
    number.ok_or_else(|| "a number from 1 to 100000 is needed".to_owned())
}

impl Metrics {
    pub async fn run(&self, dbname: Option<String>) -> Result<(), Failure> {
        let listener = TcpListener::bind(&self.listen).await.map_err(|error| {
            Failure::new(format!("could not listen on \"{}\"", self.listen))
                .detail(format!("{error}."))
                .hint(
                    "Give --listen an address of this machine and a free port, as 127.0.0.1:9733.",
                )
        })?;
        println!("listening on http://{}/metrics", listener.local_addr()?);
        let exporter = Exporter::new(dbname, self.max_names);
        Ok(axum::serve(accept(listener, None, LIMITS)?, router(exporter)).await?)
    }
}
