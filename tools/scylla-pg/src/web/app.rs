//! What all requests share.

use super::access::{Network, Sessions, Signer, Throttle};
use super::database::Database;
use super::jobs::Jobs;
use axum::http::HeaderName;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// By what a viewer's role is known.
pub enum LogIn {
    /// A role and its password.
    Password,
    /// A header that a trusted proxy sets.
    Header(HeaderName),
    /// All viewers have this role.
    Fixed(String),
}

pub struct App {
    pub databases: Vec<Arc<Database>>,
    pub log_in: LogIn,
    pub writable: bool,
    /// The path below which the pages are, without a slash at its end.
    pub base: String,
    /// What browsers call this site, where that is told: `https://example.com`.
    pub origin: Option<String>,
    /// The site is reached by TLS, at this program or at a proxy.
    pub secure: bool,
    /// Only requests to a name of this machine are answered.
    pub only_local: bool,
    pub trusted: Vec<Network>,
    pub signer: Signer,
    pub sessions: Sessions,
    pub throttle: Throttle,
    pub jobs: Jobs,
    /// Counts the snapshots.
    pub ticks: watch::Sender<u64>,
}

impl App {
    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        self.databases.iter().find(|database| database.name == name)
    }

    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.has(address))
    }
}
