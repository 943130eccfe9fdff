use crate::address::{Address, config};
use crate::session::Session;
use crate::wait::{eventually, seconds};
use std::sync::atomic::{AtomicU32, Ordering};

/// A database of one test, dropped with this value.
pub struct Database {
    pub(crate) address: Address,
    pub name: String,
}

static COUNT: AtomicU32 = AtomicU32::new(1);

impl Database {
    pub(crate) fn create(address: Address) -> Database {
        let database =
            Database { address, name: format!("client_{}", COUNT.fetch_add(1, Ordering::Relaxed)) };
        let mut session = database.elsewhere().expect("connect to postgres");
        session
            .batch_execute(&format!("create database {} template template0", database.name))
            .expect("create database");
        database
    }

    /// Another database of the same server, such as a copy.
    pub fn named(&self, name: &str) -> Database {
        Database { address: self.address.clone(), name: name.to_owned() }
    }

    fn elsewhere(&self) -> Result<Session, postgres::Error> {
        Session::open(&config(&self.address, "postgres"))
    }

    #[track_caller]
    pub fn connect(&self) -> Session {
        self.try_connect().expect("connect")
    }

    /// Where the server listens: a folder with a socket, or an address; and the port.
    pub fn reach(&self) -> (String, u16) {
        self.address.read().unwrap().clone()
    }

    pub fn try_connect(&self) -> Result<Session, postgres::Error> {
        Session::open(&config(&self.address, &self.name))
    }

    /// The process ids of the schedulers that run in this database now.
    #[track_caller]
    pub fn schedulers(&self) -> Vec<i32> {
        let mut session = self.elsewhere().expect("connect to postgres");
        let sql = "select coalesce(array_agg(pid order by pid), '{}') from pg_stat_activity
                   where backend_type like 'scylla%' and datname = $1";
        session.value(sql, &[&self.name])
    }

    /// The process id of this database's scheduler. Waits until one runs.
    #[track_caller]
    pub fn scheduler(&self) -> i32 {
        eventually(seconds(10), "the database has a scheduler", || {
            let mut session = self.elsewhere().ok()?;
            let look = "select min(pid) from pg_stat_activity where backend_type ilike '%scylla%' and datname = $1";
            session.try_value::<Option<i32>>(look, &[&self.name]).ok().flatten()
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // after a crash test there may be no server left to drop it from
        if let Ok(mut session) = self.elsewhere() {
            let _ = session
                .batch_execute(&format!("drop database if exists {} with (force)", self.name));
        }
    }
}
