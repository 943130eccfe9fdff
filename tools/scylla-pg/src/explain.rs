//! Why a call failed on a server without this version of the extension.

use crate::failure::Failure;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// The failure of a call, or what explains it.
pub async fn explain(client: &Client, failure: Failure) -> Failure {
    explained(client, &failure).await.unwrap_or(failure)
}

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
