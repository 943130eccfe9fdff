//! What is submitted.

use std::{fmt, time::SystemTime};

use serde::{Deserialize, Serialize, de::DeserializeOwned, ser::Error as _};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::{
    error::Error,
    values::{Interval, When, timestamp},
};

/// A kind of task: the type of its spec says where it goes.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     url: String,
///     width: u32,
/// }
///
/// impl scylla_pg::Spec for Resize {
///     const QUEUE: &'static str = "images";
///     const ACTION: &'static str = "resize";
/// }
/// ```
pub trait Spec: Serialize + DeserializeOwned {
    /// The queue of these tasks.
    const QUEUE: &'static str;
    /// What is to be done, within the queue.
    const ACTION: &'static str;
}

/// What to do when a key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// An error with the SQLSTATE 23505.
    Error,
    /// Submit nothing, and give the id of the task that has the key.
    Ignore,
    /// Cancel the task that has the key, unless it runs: then an error with the SQLSTATE 55006.
    Replace,
}

/// What becomes of a task when one that it comes after is aborted or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It is aborted.
    Abort,
    /// It runs. [`Task::num_failures`](crate::Task::num_failures) counts them.
    Run,
}

/// The value of an argument.
#[derive(Debug, Clone)]
enum Argument {
    Text(String),
    Integer(&'static str, i64),
    Boolean(bool),
    Ids(Vec<Uuid>),
    Interval(Interval),
    Time(When),
}

impl Argument {
    /// SQL for the value, with the parameter's number.
    fn sql(&self, n: usize) -> String {
        match self {
            Self::Text(_) => format!("${n}::text"),
            Self::Integer(kind, _) => format!("${n}::text::{kind}"),
            Self::Boolean(_) => format!("${n}::text::boolean"),
            Self::Ids(_) => format!("${n}::text::uuid[]"),
            Self::Interval(_) => format!("${n}::text::interval"),
            Self::Time(When::At(_)) => format!("${n}::text::timestamptz"),
            Self::Time(When::In(_)) => format!("clock_timestamp() + ${n}::text::interval"),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(_, number) => number.to_string(),
            Self::Boolean(flag) => flag.to_string(),
            Self::Ids(ids) => crate::values::ids(ids),
            Self::Interval(interval) => interval.0.clone(),
            Self::Time(When::At(time)) => timestamp(*time),
            Self::Time(When::In(delay)) => Interval::from(*delay).0,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Integer(_, number) => (*number).into(),
            Self::Boolean(flag) => (*flag).into(),
            Self::Ids(ids) => ids.iter().map(Uuid::to_string).collect(),
            Self::Time(When::In(delay)) => timestamp(SystemTime::now() + *delay).into(),
            Self::Text(_) | Self::Interval(_) | Self::Time(When::At(_)) => self.text().into(),
        }
    }
}

/// What one call submits, as middleware sees it.
#[derive(Clone)]
pub struct Submission {
    queue: String,
    specs: Result<Vec<Box<RawValue>>, String>,
    many: bool,
    arguments: Vec<(&'static str, Argument)>,
    meta: Map<String, Value>,
    /// Arguments with an entry for each spec.
    lists: Vec<(&'static str, &'static str, Vec<Option<String>>)>,
    pub(crate) handoff: Option<Handoff>,
}

/// How the innermost service gives a submission to the call that it belongs to, and gets the ids.
pub(crate) type Handoff = mpsc::Sender<(Submission, oneshot::Sender<Result<Vec<Uuid>, Error>>)>;

impl Submission {
    fn new(
        queue: String,
        specs: Result<Vec<Box<RawValue>>, serde_json::Error>,
        many: bool,
    ) -> Self {
        Self {
            queue,
            specs: specs.map_err(|error| error.to_string()),
            many,
            arguments: vec![],
            meta: Map::new(),
            lists: vec![],
            handoff: None,
        }
    }

    /// The queue that the tasks go to.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// What is to be done.
    pub fn action(&self) -> &str {
        self.text("action").unwrap_or("")
    }

    /// The id, if one task is submitted and was given one.
    pub fn id(&self) -> Option<Uuid> {
        self.text("id")?.parse().ok()
    }

    /// An argument that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.arguments.iter().find_map(|(known, value)| match value {
            Argument::Text(text) if *known == name => Some(text.as_str()),
            _ => None,
        })
    }

    /// The ids that were given for each spec.
    #[cfg(feature = "testing")]
    pub(crate) fn given_ids(&self) -> Option<Vec<Uuid>> {
        let (_, _, ids) = self.lists.iter().find(|(name, _, _)| *name == "ids")?;
        ids.iter().map(|id| id.as_ref()?.parse().ok()).collect()
    }

    /// The specs. An error: one has no form in JSON.
    pub fn specs(&self) -> Result<&[Box<RawValue>], Error> {
        self.specs.as_deref().map_err(|error| serde_json::Error::custom(error).into())
    }

    /// How many tasks are submitted.
    pub fn len(&self) -> usize {
        self.specs.as_ref().map_or(1, Vec::len)
    }

    /// Whether no task is submitted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is a call of [`Client::submit_many`](crate::Client::submit_many).
    pub fn is_many(&self) -> bool {
        self.many
    }

    /// What is noted about each of the tasks, such as trace context.
    pub fn meta(&self) -> &Map<String, Value> {
        &self.meta
    }

    /// The same, to be changed.
    pub fn meta_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.meta
    }

    fn set(&mut self, name: &'static str, value: Argument) {
        self.arguments.retain(|(known, _)| *known != name);
        self.arguments.push((name, value));
    }

    /// `, name => $n::type` for each argument, behind so many parameters.
    pub(crate) fn arguments(&self, params: &mut Vec<String>) -> String {
        let mut sql = String::new();
        for (name, value) in &self.arguments {
            params.push(value.text());
            let cast = if *name == "id" { "::uuid" } else { "" };
            sql.push_str(&format!(", {name} => {}{cast}", value.sql(params.len())));
        }
        if !self.meta.is_empty() {
            params.push(Value::Object(self.meta.clone()).to_string());
            sql.push_str(&format!(", meta => ${}::text::jsonb", params.len()));
        }
        for (name, kind, items) in &self.lists {
            params.push(crate::values::array(items.iter().map(Option::as_deref)));
            sql.push_str(&format!(", {name} => ${}::text::{kind}[]", params.len()));
        }
        sql
    }

    /// The element of `submit_tasks`.
    pub(crate) fn element(&self) -> Result<Value, Error> {
        let mut element = Map::new();
        element.insert("queue".into(), self.queue.clone().into());
        element.insert("spec".into(), serde_json::from_str(self.specs()?[0].get())?);
        element.extend(self.arguments.iter().map(|(name, value)| ((*name).into(), value.json())));
        if !self.meta.is_empty() {
            element.insert("meta".into(), self.meta.clone().into());
        }
        Ok(element.into())
    }

    /// Pieces of at most so many specs.
    pub(crate) fn pieces(mut self, most: usize) -> Result<Vec<Self>, Error> {
        let mut specs = self.specs()?.to_vec();
        for (name, _, items) in &self.lists {
            if items.len() != specs.len() {
                return Err(Error::Config(format!(
                    "{} {name} for {} specs",
                    items.len(),
                    specs.len()
                )));
            }
        }
        let mut pieces = vec![];
        while specs.len() > most {
            let mut piece = self.clone();
            piece.specs = Ok(specs.drain(..most).collect());
            for ((_, _, left), (_, _, items)) in self.lists.iter_mut().zip(&mut piece.lists) {
                *items = left.drain(..most).collect();
            }
            pieces.push(piece);
        }
        self.specs = Ok(specs);
        pieces.push(self);
        Ok(pieces)
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("queue", &self.queue)
            .field("specs", &self.specs)
            .field("arguments", &self.arguments)
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// A task to submit, with the arguments of `scylla.submit`. What is not set comes from the queue's
/// settings.
///
/// ```
/// use std::time::Duration;
/// use scylla_pg::NewTask;
/// use serde_json::json;
///
/// let task = NewTask::new("mail", json!({"to": "ann@example.com"}))
///     .action("welcome")
///     .key("welcome-ann")
///     .run_at(Duration::from_secs(300))
///     .post_result();
/// ```
#[derive(Debug, Clone)]
#[must_use = "a task runs only when it is submitted"]
pub struct NewTask(pub(crate) Submission);

/// Tasks to submit in one call: a spec for each, and arguments that hold for all.
///
/// ```
/// use scylla_pg::NewTasks;
///
/// let tasks = NewTasks::new("numbers", 1..=1000).action("square").priority(5);
/// ```
#[derive(Debug, Clone)]
#[must_use = "tasks run only when they are submitted"]
pub struct NewTasks(pub(crate) Submission);

macro_rules! shared_arguments {
    () => {
        /// What is to be done, within the queue.
        pub fn action(mut self, action: impl Into<String>) -> Self {
            self.0.set("action", Argument::Text(action.into()));
            self
        }

        /// Higher ones run first: 0, unless set, to 4294967295.
        pub fn priority(mut self, priority: u32) -> Self {
            self.0.set("priority", Argument::Integer("bigint", priority.into()));
            self
        }

        /// Not before: a [`SystemTime`], or a [`Duration`](std::time::Duration) from now.
        pub fn run_at(mut self, time: impl Into<When>) -> Self {
            self.0.set("run_at", Argument::Time(time.into()));
            self
        }

        /// How many tries there can be; 0: no limit.
        pub fn max_tries(mut self, tries: u32) -> Self {
            self.0.set("max_tries", Argument::Integer("int", tries.into()));
            self
        }

        /// The delay before the second try; it doubles with each one.
        pub fn retry_interval(mut self, interval: impl Into<Interval>) -> Self {
            self.0.set("retry_interval", Argument::Interval(interval.into()));
            self
        }

        /// Up to so much is added to the delay, at random.
        pub fn retry_jitter(mut self, interval: impl Into<Interval>) -> Self {
            self.0.set("retry_jitter", Argument::Interval(interval.into()));
            self
        }

        /// The length of a lease, without a heartbeat: `timeout` of `scylla.submit`.
        pub fn lease(mut self, interval: impl Into<Interval>) -> Self {
            self.0.set("timeout", Argument::Interval(interval.into()));
            self
        }

        /// Allows to wait for the result: [`Client::result`](crate::Client::result).
        pub fn post_result(mut self) -> Self {
            self.0.set("post_result", Argument::Boolean(true));
            self
        }

        /// Notes something about the task, such as a tag. The server does not interpret it.
        pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
            self.0.meta.insert(name.into(), value.into());
            self
        }
    };
}

impl NewTask {
    /// A task of a queue. A spec that has no form in JSON is an error when it is submitted.
    pub fn new(queue: impl Into<String>, spec: impl Serialize) -> Self {
        Self(Submission::new(queue.into(), to_raw_value(&spec).map(|spec| vec![spec]), false))
    }

    shared_arguments!();

    /// The id. Without one the client makes a UUIDv7.
    pub fn id(mut self, id: Uuid) -> Self {
        self.0.set("id", Argument::Text(id.to_string()));
        self
    }

    /// A name that is unique among the queue's unfinished tasks.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.set("key", Argument::Text(key.into()));
        self
    }

    /// What to do when the key is taken; an error, unless set.
    pub fn on_conflict(mut self, what: OnConflict) -> Self {
        let word = match what {
            OnConflict::Error => "error",
            OnConflict::Ignore => "ignore",
            OnConflict::Replace => "replace",
        };
        self.0.set("on_conflict", Argument::Text(word.into()));
        self
    }

    /// The key stays taken so long after the submission, though the task has settled.
    pub fn unique_for(mut self, interval: impl Into<Interval>) -> Self {
        self.0.set("unique_for", Argument::Interval(interval.into()));
        self
    }

    /// Tasks that must settle first.
    pub fn after(mut self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.0.set("after", Argument::Ids(ids.into_iter().collect()));
        self
    }

    /// What becomes of it when one of these is aborted or cancelled; it is aborted, unless set.
    pub fn on_failure(mut self, what: OnFailure) -> Self {
        let word = match what {
            OnFailure::Abort => "abort",
            OnFailure::Run => "run",
        };
        self.0.set("on_failure", Argument::Text(word.into()));
        self
    }

    /// The tenant, account or aggregate that it belongs to: the unit of fairness, order and limits
    /// in the queue.
    pub fn group_key(mut self, group_key: impl Into<String>) -> Self {
        self.0.set("group_key", Argument::Text(group_key.into()));
        self
    }

    pub(crate) fn with_id(self) -> Self {
        if self.0.id().is_some() { self } else { self.id(Uuid::now_v7()) }
    }
}

impl NewTasks {
    /// A task of a queue for each spec.
    pub fn new<S: Serialize>(queue: impl Into<String>, specs: impl IntoIterator<Item = S>) -> Self {
        let specs = specs.into_iter().map(|spec| to_raw_value(&spec)).collect();
        Self(Submission::new(queue.into(), specs, true))
    }

    /// A task for each spec, where the type of the specs says.
    pub fn of<S: Spec>(specs: impl IntoIterator<Item = S>) -> Self {
        Self::new(S::QUEUE, specs).action(S::ACTION)
    }

    shared_arguments!();

    /// The ids, one for each spec.
    pub fn ids(self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.list("ids", "uuid", ids.into_iter().map(|id| Some(id.to_string())).collect())
    }

    /// The keys, one for each spec; none: no key.
    pub fn keys<K: Into<String>>(self, keys: impl IntoIterator<Item = Option<K>>) -> Self {
        self.list("keys", "text", keys.into_iter().map(|key| key.map(Into::into)).collect())
    }

    /// The groups, one for each spec; none: no group.
    pub fn group_keys<K: Into<String>>(self, keys: impl IntoIterator<Item = Option<K>>) -> Self {
        self.list("group_keys", "text", keys.into_iter().map(|key| key.map(Into::into)).collect())
    }

    fn list(mut self, name: &'static str, kind: &'static str, items: Vec<Option<String>>) -> Self {
        self.0.lists.retain(|(known, _, _)| *known != name);
        self.0.lists.push((name, kind, items));
        self
    }
}

impl<S: Spec> From<S> for NewTask {
    fn from(spec: S) -> Self {
        Self::new(S::QUEUE, spec).action(S::ACTION)
    }
}

/// What became of an element of [`Client::submit_tasks`](crate::Client::submit_tasks).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Submitted {
    /// The task's id.
    pub id: Option<Uuid>,
    /// Whether it was submitted.
    pub outcome: SubmitOutcome,
    /// Why not.
    pub error: Option<String>,
}

/// Whether an element of [`Client::submit_tasks`](crate::Client::submit_tasks) was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubmitOutcome {
    /// It was.
    Inserted,
    /// Its id or key is taken.
    Duplicate,
    /// It is not what the server takes.
    Invalid,
}
