//! Which tasks a command is about.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

#[derive(Clone, Copy, ValueEnum)]
pub enum Status {
    Waiting,
    Ready,
    Running,
    Completed,
    Aborted,
    Cancelled,
}

/// A value that is JSON.
pub fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))
}

#[derive(Args)]
#[command(next_help_heading = "Which tasks")]
pub struct Filter {
    /// Of this queue
    #[arg(short, long)]
    queue: Option<String>,
    /// With this status
    #[arg(short, long)]
    status: Option<Status>,
    /// With this action
    #[arg(long)]
    action: Option<String>,
    /// Of this group of the queue
    #[arg(long, value_name = "GROUP")]
    group_key: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    /// That this worker owns, or owned last
    #[arg(long)]
    worker: Option<String>,
    /// Submitted before this time, such as '2026-01-31 12:00'
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Submitted after this time
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Whose spec contains this, such as '{"to": "joe@example.com"}'
    #[arg(long, value_name = "JSON", value_parser = json)]
    spec: Option<Value>,
    /// Whose meta contains this
    #[arg(long, value_name = "JSON", value_parser = json)]
    meta: Option<Value>,
}

impl Filter {
    /// The object that the server's functions take.
    pub fn to_json(&self) -> Map<String, Value> {
        let status = self.status.and_then(|it| it.to_possible_value());
        let status = status.map(|it| it.get_name().to_owned());
        let text = |it: &Option<String>| it.clone().map(Value::from);
        let members = [
            ("queue", text(&self.queue)),
            ("status", text(&status)),
            ("action", text(&self.action)),
            ("group_key", text(&self.group_key)),
            ("key", text(&self.key)),
            ("worker", text(&self.worker)),
            ("created_before", text(&self.created_before)),
            ("created_after", text(&self.created_after)),
            ("spec", self.spec.clone()),
            ("meta", self.meta.clone()),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}
