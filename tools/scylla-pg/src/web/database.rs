//! One database: connections of the roles that look at it, and what these may see and do.

use super::access::{Identity, lock};
use super::part::Part;
use super::snapshot::Snapshot;
use crate::connection::{Login, connect_as};
use crate::failure::Failure;
use futures_util::future::{join, join4};
use serde_json::json;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// How many connections all viewers have at most.
const CONNECTIONS: usize = 24;
/// How long a connection is kept that no page needs.
const IDLE: Duration = Duration::from_secs(60);
/// Of how many tasks, at most, the snapshots tell.
const WATCHED: usize = 500;
/// How old what a role may see and do can be.
const RIGHTS_AGE: Duration = Duration::from_secs(10);
/// How long a page waits for the answer that another has asked for.
const TURN: Duration = Duration::from_secs(1);

/// Queues that a role may look at, and workers that have asked for no queue yet.
#[derive(Default)]
pub struct Visible {
    pub queues: HashSet<String>,
    pub idle_workers: HashSet<String>,
    /// The queues that there were when it was asked.
    asked: HashSet<String>,
}

/// A part of a page, and what it was made of.
struct Made {
    snapshot: Arc<Snapshot>,
    visible: Option<Arc<Visible>>,
    part: Arc<Part>,
}

/// What a role may do with a queue; without a queue, with any.
#[derive(Clone, Copy, Default)]
pub struct Rights {
    pub submit: bool,
    pub cancel: bool,
    pub manage: bool,
    pub manage_all: bool,
    pub owner: bool,
}

type Cache<K, V> = Mutex<HashMap<K, (Instant, V)>>;

/// What was asked not long ago.
fn young<K: Eq + Hash, V: Clone>(cache: &Cache<K, V>, key: &K) -> Option<V> {
    let cache = lock(cache);
    let (since, value) = cache.get(key)?;
    (since.elapsed() < RIGHTS_AGE).then(|| value.clone())
}

pub struct Database {
    pub name: String,
    pub colour: Option<String>,
    dbname: Option<String>,
    pub writable: bool,
    idle: Mutex<HashMap<Identity, Vec<(Client, Instant)>>>,
    permits: Arc<Semaphore>,
    visible: Cache<Identity, Arc<Visible>>,
    rights: Cache<(Identity, Option<String>), Rights>,
    /// The overviews of the newest snapshot: all viewers with a role see the same.
    overviews: Mutex<HashMap<Identity, Made>>,
    /// Held by the page that asks what a role may see or do, so that one asks for all.
    asking: tokio::sync::Mutex<()>,
    pub snapshot: watch::Sender<Arc<Snapshot>>,
    /// A viewer has come.
    pub wake: Notify,
    /// As which role the snapshots are taken.
    pub observer: Identity,
    /// The snapshots have what Prometheus reads, too.
    pub has_metrics: bool,
    /// The tasks whose pages are open, and how often.
    watched: Mutex<HashMap<Uuid, usize>>,
}

impl Database {
    pub fn new(
        name: String,
        colour: Option<String>,
        dbname: Option<String>,
        writable: bool,
        observer: Identity,
        has_metrics: bool,
    ) -> Database {
        Database {
            name,
            colour,
            dbname,
            writable,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            visible: Mutex::default(),
            rights: Mutex::default(),
            overviews: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            snapshot: watch::Sender::new(Arc::default()),
            wake: Notify::new(),
            observer,
            has_metrics,
            watched: Mutex::default(),
        }
    }

    /// A new connection as a role. In a read-only one the server refuses all changes.
    pub async fn connect(&self, identity: &Identity) -> Result<Client, Failure> {
        let login = match identity {
            Identity::Password { role, password } => {
                Some(Login { role, password: Some(password.as_str()) })
            }
            _ => None,
        };
        let client = connect_as(self.dbname.as_deref(), login).await?;
        let read_only = !self.writable || *identity == Identity::Program;
        client
            .batch_execute(&format!(
                "set statement_timeout = '15s'; set datestyle = 'ISO, YMD'; set timezone = 'UTC';
                 set intervalstyle = 'postgres'; set bytea_output = 'hex';
                 set jit = off; set default_transaction_read_only = {read_only}"
            ))
            .await?;
        if let Identity::Role(role) = identity {
            client.query_one("select set_config('role', $1, false)", &[role]).await?;
        }
        Ok(client)
    }

    /// Whether the server lets a role in by this password, and not without one.
    pub async fn log_in(&self, role: &str, password: &str) -> Result<(), Failure> {
        let without =
            connect_as(self.dbname.as_deref(), Some(Login { role, password: None })).await;
        match without {
            Ok(_) => {
                return Err(Failure::new("the database server does not ask for a password")
                    .detail("It would let any visitor in as this role.")
                    .hint(
                        "Have a line with scram-sha-256 for this program's host in pg_hba.conf.",
                    ));
            }
            Err(failure) if failure.message.contains("password missing") => {}
            Err(failure) => return Err(failure),
        }
        let identity = Identity::Password { role: role.to_owned(), password: password.to_owned() };
        let client = self.connect(&identity).await?;
        self.keep(&identity, client);
        Ok(())
    }

    /// A connection for one page or action.
    pub async fn lend(&self, identity: &Identity) -> Result<Lent<'_>, Failure> {
        let permit = timeout(Duration::from_secs(5), self.permits.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(Failure::new("too many pages are being read at once")
                .hint("Load the page again in a moment."));
        };
        let kept = loop {
            let next = lock(&self.idle).get_mut(identity).and_then(Vec::pop);
            match next {
                Some((client, _)) if client.is_closed() => {}
                next => break next,
            }
        };
        let client = match kept {
            Some((client, _)) => client,
            None => self.connect(identity).await?,
        };
        Ok(Lent {
            database: self,
            identity: identity.clone(),
            client: Some(client),
            _permit: permit,
        })
    }

    fn keep(&self, identity: &Identity, client: Client) {
        if !client.is_closed() {
            lock(&self.idle).entry(identity.clone()).or_default().push((client, Instant::now()));
        }
    }

    /// Tasks whose pages are open.
    pub fn watched(&self) -> Vec<Uuid> {
        lock(&self.watched).keys().copied().take(WATCHED).collect()
    }

    /// Has the snapshots tell of a task until this is dropped.
    pub fn watch(self: &Arc<Database>, id: Uuid) -> Watch {
        *lock(&self.watched).entry(id).or_default() += 1;
        Watch { database: self.clone(), id }
    }

    /// Closes the connections of a role that has left.
    pub fn forget(&self, identity: &Identity) {
        lock(&self.idle).remove(identity);
        lock(&self.visible).remove(identity);
        lock(&self.overviews).remove(identity);
        lock(&self.rights).retain(|(of, _), _| of != identity);
    }

    /// Closes connections that no page has needed for a while, and forgets what is old.
    pub fn prune(&self) {
        lock(&self.idle).retain(|_, clients| {
            clients.retain(|(client, since)| !client.is_closed() && since.elapsed() < IDLE);
            !clients.is_empty()
        });
        lock(&self.visible).retain(|_, (since, _)| since.elapsed() < RIGHTS_AGE);
        lock(&self.rights).retain(|_, (since, _)| since.elapsed() < RIGHTS_AGE);
        lock(&self.overviews).clear();
    }

    /// The overview of a snapshot for a role, which the first viewer of it has made.
    pub fn overview(
        &self,
        identity: &Identity,
        snapshot: Arc<Snapshot>,
        visible: Option<Arc<Visible>>,
        make: impl FnOnce(&Snapshot, Option<&Visible>) -> Part,
    ) -> Arc<Part> {
        let made = lock(&self.overviews).get(identity).and_then(|it| {
            let is_of_these = Arc::ptr_eq(&it.snapshot, &snapshot)
                && it.visible.as_ref().map(Arc::as_ptr) == visible.as_ref().map(Arc::as_ptr);
            is_of_these.then(|| it.part.clone())
        });
        made.unwrap_or_else(|| {
            let part = Arc::new(make(&snapshot, visible.as_deref()));
            let made = Made { snapshot, visible, part: part.clone() };
            lock(&self.overviews).insert(identity.clone(), made);
            part
        })
    }

    /// What of the snapshots a role may see; `None`: all that is in them.
    pub async fn visible(&self, identity: &Identity) -> Result<Option<Arc<Visible>>, Failure> {
        if *identity == self.observer {
            return Ok(None);
        }
        let snapshot = self.snapshot.borrow().clone();
        let known = || {
            let known = young(&self.visible, identity)?;
            snapshot.queues.iter().all(|it| known.asked.contains(&it.name)).then_some(known)
        };
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        let _turn = timeout(TURN, self.asking.lock()).await;
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        let client = self.lend(identity).await?;
        let asked = snapshot.queues.iter().map(|it| it.name.clone()).collect();
        let rows = client
            .query(
                "select queue, null from scylla.queues
                 union all select null, worker from scylla.workers where queue is null",
                &[],
            )
            .await?;
        let column = |n| rows.iter().filter_map(|row| row.get(n)).collect();
        let visible = Arc::new(Visible { queues: column(0), idle_workers: column(1), asked });
        lock(&self.visible).insert(identity.clone(), (Instant::now(), visible.clone()));
        Ok(Some(visible))
    }

    /// What a role may do. It is asked by calls that change nothing.
    pub async fn rights(
        &self,
        identity: &Identity,
        queue: Option<&str>,
    ) -> Result<Rights, Failure> {
        if !self.writable {
            return Ok(Rights::default());
        }
        let key = (identity.clone(), queue.map(str::to_owned));
        if let Some(known) = young(&self.rights, &key) {
            return Ok(known);
        }
        let _turn = timeout(TURN, self.asking.lock()).await;
        if let Some(known) = young(&self.rights, &key) {
            return Ok(known);
        }
        let client = self.lend(identity).await?;
        // No task of such a status can be cancelled, or submitted again: none is looked for.
        let of = |status: &str| match queue {
            Some(queue) => json!({ "queue": queue, "status": status }).to_string(),
            None => json!({ "status": status }).to_string(),
        };
        let (settled, live) = (of("completed"), of("ready"));
        let (settled, live, queue) = (&[&settled as _], &[&live as _], &[&queue as _]);
        let cancel =
            client.query("select scylla.cancel_matching($1::text::jsonb, 1, true)", settled);
        let manage =
            client.query("select scylla.resubmit_matching($1::text::jsonb, 1, true)", live);
        let submit =
            client.query("select scylla.submit_many(coalesce($1, '*'), '{}'::jsonb[])", queue);
        let manage_all =
            client.query("select scylla.drain_worker('scylla-pg web: no worker')", &[]);
        let owner = client.query(
            "select 1 from pg_extension where extname = 'scylla' and pg_has_role(extowner, 'usage')",
            &[],
        );
        let ((cancel, manage, submit, manage_all), owner) =
            join(join4(cancel, manage, submit, manage_all), owner).await;
        let may = |result: Result<Vec<Row>, tokio_postgres::Error>| match result {
            Ok(rows) => Ok(!rows.is_empty()),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(false),
            Err(error) if error.as_db_error().is_some() => Ok(false),
            Err(error) => Err(Failure::from(error)),
        };
        let rights = Rights {
            submit: may(submit)?,
            cancel: may(cancel)?,
            manage: may(manage)?,
            manage_all: may(manage_all)?,
            owner: may(owner)?,
        };
        lock(&self.rights).insert(key, (Instant::now(), rights));
        Ok(rights)
    }
}

/// A page of a task that is open.
pub struct Watch {
    database: Arc<Database>,
    pub id: Uuid,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = lock(&self.database.watched);
        if let Entry::Occupied(mut entry) = watched.entry(self.id) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// A connection that goes back when it is dropped.
pub struct Lent<'a> {
    database: &'a Database,
    identity: Identity,
    client: Option<Client>,
    _permit: OwnedSemaphorePermit,
}

impl Deref for Lent<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.database.keep(&self.identity, client);
        }
    }
}
