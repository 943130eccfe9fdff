//! How a worker is set up.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    connector::Connector, handle::WorkerHandle, handler::AnyHandler, statements::Exchange,
};

/// What a builder has gathered.
pub(crate) struct Setup {
    pub connector: Connector,
    pub exchange: Exchange,
    pub queues: Vec<String>,
    /// None: any.
    pub actions: Option<Vec<String>>,
    pub handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub any: Option<Arc<dyn AnyHandler>>,
    pub limits: HashMap<String, Duration>,
    pub limit: Option<Duration>,
    pub concurrency: usize,
    pub capacity: usize,
    pub grace: Duration,
    pub coalesce: Duration,
    pub wait: Duration,
    pub call_timeout: Duration,
    pub prepares: bool,
    pub handle: WorkerHandle,
}

impl Setup {
    pub fn handler_of(&self, action: &str) -> Option<&Arc<dyn AnyHandler>> {
        self.handlers.get(action).or(self.any.as_ref())
    }

    /// How long a handler of this action may run.
    pub fn limit_of(&self, action: &str) -> Option<Duration> {
        self.limits.get(action).copied().or(self.limit)
    }
}
