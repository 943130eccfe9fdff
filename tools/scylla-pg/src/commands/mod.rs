//! The commands.

pub mod bulk;
pub mod doctor;
mod filter;
pub mod import;
pub mod list;
pub mod metrics;
pub mod relay;
pub mod submit;
pub mod top;
pub mod web;
pub mod why;

use crate::failure::Failure;
use tokio_postgres::Client;

/// Views show nothing to a role that may look at no queue. This fails for it.
async fn may_look(client: &Client) -> Result<(), Failure> {
    let sees_all = "select pg_has_role('pg_monitor', 'usage')";
    if !client.query_one(sees_all, &[]).await?.get::<_, bool>(0) {
        client.query("select from scylla.list_tasks('{}', max_tasks => 1)", &[]).await?;
    }
    Ok(())
}
