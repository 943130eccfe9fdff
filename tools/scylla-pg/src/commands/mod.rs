//! The commands.

pub mod bulk;
pub mod doctor;
mod filter;
pub mod list;
pub mod metrics;
pub mod relay;
pub mod submit;
pub mod top;
pub mod web;
pub mod why;

use crate::failure::Failure;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Where a call failed since the extension is missing, or older than this program, says that.
async fn explained(client: &Client, failure: &Failure) -> Option<Failure> {
    let missing = [
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
    ];
    if !missing.contains(failure.code.as_ref()?) {
        return None;
    }
    let found =
        "select current_database(), (select extversion from pg_extension where extname = 'scylla')";
    let row = client.query_one(found, &[]).await.ok()?;
    let database: &str = row.get(0);
    Some(match row.get::<_, Option<&str>>(1) {
        None => Failure::new(format!("scylla is not installed in database \"{database}\""))
            .hint("Connect to another database, or run: create extension scylla"),
        Some(version) => Failure::new(failure.message.clone())
            .detail(format!("Database \"{database}\" has scylla {version}; this needs 0.2.0."))
            .hint("Install scylla 0.2.0 or later, and run: alter extension scylla update"),
    })
}

/// Views show nothing to a role that may look at no queue. This fails for it.
async fn may_look(client: &Client) -> Result<(), Failure> {
    let sees_all = "select pg_has_role('pg_monitor', 'usage')";
    if !client.query_one(sees_all, &[]).await?.get::<_, bool>(0) {
        client.query("select from scylla.list_tasks('{}', max_tasks => 1)", &[]).await?;
    }
    Ok(())
}

pub async fn explain(client: &Client, failure: Failure) -> Failure {
    explained(client, &failure).await.unwrap_or(failure)
}
