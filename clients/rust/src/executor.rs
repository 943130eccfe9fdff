//! Connections that run a call.

use tokio_postgres::types::{ToSql, Type};

use crate::{calls::Call, error::Error};

/// A connection or transaction that a [`Client`](crate::Client) can submit in: of tokio-postgres,
/// of deadpool-postgres, and with the feature `sqlx` of sqlx.
pub trait Executor: sealed::Run {}

impl<E: sealed::Run> Executor for E {}

pub(crate) mod sealed {
    use super::{Call, Error};

    pub trait Run: Send {
        /// Runs a call, and gives the text of its only row.
        fn text(
            &mut self,
            call: &Call,
        ) -> impl Future<Output = Result<Option<String>, Error>> + Send;
    }
}

pub(crate) use sealed::Run;

macro_rules! run {
    ($($connection:ty),*) => {$(
        impl Run for &$connection {
            async fn text(&mut self, call: &Call) -> Result<Option<String>, Error> {
                // without a name: what a pooler gives to others has no statement of ours
                let text = |param| (param as &(dyn ToSql + Sync), Type::TEXT);
                let params: Vec<_> = call.params.iter().map(text).collect();
                let row = self.query_typed_one(&call.sql, &params).await?;
                Ok(row.try_get(0)?)
            }
        }
    )*};
}

run!(
    tokio_postgres::Client,
    tokio_postgres::Transaction<'_>,
    deadpool_postgres::Client,
    deadpool_postgres::Transaction<'_>
);

#[cfg(feature = "sqlx")]
impl Run for &mut sqlx::PgConnection {
    async fn text(&mut self, call: &Call) -> Result<Option<String>, Error> {
        let mut query =
            sqlx::query_scalar(sqlx::AssertSqlSafe(call.sql.as_str())).persistent(false);
        for param in &call.params {
            query = query.bind(param);
        }
        Ok(query.fetch_one(&mut **self).await?)
    }
}

#[cfg(feature = "sqlx")]
impl Run for &mut sqlx::Transaction<'_, sqlx::Postgres> {
    async fn text(&mut self, call: &Call) -> Result<Option<String>, Error> {
        (&mut ***self).text(call).await
    }
}
