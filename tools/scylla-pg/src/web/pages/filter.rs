//! Which tasks a page is about.

use super::super::html;
use crate::failure::Failure;
use maud::{Markup, html};
use serde_json::{Map, Value};

const TEXTS: [(&str, &str, &str); 7] = [
    ("queue", "Queue", ""),
    ("action", "Action", ""),
    ("group_key", "Group", ""),
    ("key", "Key", ""),
    ("worker", "Worker", ""),
    ("created_after", "Submitted after", "2026-01-31 12:00, in UTC"),
    ("created_before", "Submitted before", "yesterday"),
];
const JSON: [(&str, &str, &str); 2] = [
    ("spec", "Spec contains", "{\"to\": \"joe@example.com\"}"),
    ("meta", "Meta contains", "{\"tag\": \"x\"}"),
];
const STATUSES: [&str; 6] = ["waiting", "ready", "running", "completed", "aborted", "cancelled"];

/// The fields of the form, as they were sent.
#[derive(Clone)]
pub struct Filter(Vec<(&'static str, String)>);

impl Filter {
    pub fn read<'a>(get: impl Fn(&str) -> &'a str) -> Filter {
        let texts = TEXTS.iter().chain(&JSON).map(|(name, ..)| *name);
        let names = texts.chain(["status"]);
        Filter(
            names
                .map(|name| (name, get(name).trim().to_owned()))
                .filter(|(_, it)| !it.is_empty())
                .collect(),
        )
    }

    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(it, _)| *it == name).map_or("", |(_, value)| value)
    }

    /// The object that the server's functions take. Numbers stay as they were written.
    pub fn to_json(&self) -> Result<Map<String, Value>, Failure> {
        let mut object = Map::new();
        for (name, text) in &self.0 {
            let is_json = JSON.iter().any(|(it, ..)| it == name);
            let value = match is_json {
                true => serde_json::from_str(text).map_err(|error| {
                    Failure::new(format!("{name} is not JSON: {error}"))
                        .hint("Write an object such as {\"to\": \"joe@example.com\"}.")
                })?,
                false => Value::from(text.as_str()),
            };
            object.insert((*name).to_owned(), value);
        }
        Ok(object)
    }

    pub fn query(&self, more: &[(&str, &str)]) -> String {
        let own = self.0.iter().map(|(name, value)| (*name, value.as_str()));
        html::query(&own.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// For a form that does something to all that match.
    pub fn hidden(&self) -> Markup {
        html! { @for (name, value) in &self.0 { input type="hidden" name=(name) value=(value); } }
    }

    /// The form. Fields that are rarely used open by themselves when they have something.
    pub fn form(&self, action: &str, queues: &[String]) -> Markup {
        let more = [
            "action",
            "group_key",
            "key",
            "worker",
            "created_after",
            "created_before",
            "spec",
            "meta",
        ];
        let is_open = more.iter().any(|name| !self.get(name).is_empty());
        let field = |name: &str, label: &str, example: &str| {
            html! {
                label { (label) input name=(name) value=(self.get(name)) placeholder=(example) list=[(name == "queue").then_some("queues")] autocapitalize="none" spellcheck="false"; }
            }
        };
        html! {
            form.filter action=(action) role="search" aria-label="Filter" {
                div.fields {
                    (field("queue", "Queue", ""))
                    datalist id="queues" { @for queue in queues { option value=(queue) {} } }
                    label {
                        "Status"
                        select name="status" {
                            option value="" { "any" }
                            @for status in STATUSES { option value=(status) selected[self.get("status") == status] { (status) } }
                        }
                    }
                    button.main { "Show" }
                    a.button href=(action) { "Reset" }
                }
                details open[is_open] {
                    summary { "More" }
                    div.fields {
                        @for (name, label, example) in &TEXTS[1..] { (field(name, label, example)) }
                        @for (name, label, example) in &JSON { (field(name, label, example)) }
                    }
                }
            }
        }
    }
}
