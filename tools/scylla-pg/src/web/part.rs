//! A part of a page that changes while it is open: something above a table, and the table.

use maud::{Markup, html};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// An id for an element, from names that users chose.
pub fn id_of(names: &[&str]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, names.join("\n").as_bytes());
    digest.as_ref()[..8].iter().fold("e".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Something above a table, and the table's rows by their ids.
pub struct Part {
    id: String,
    top: String,
    head: String,
    rows: Vec<(String, String)>,
}

impl Part {
    pub fn new(id: String, top: Markup, head: Markup, rows: Vec<(String, Markup)>) -> Part {
        let row = |(id, cells): (String, Markup)| {
            let text = html! { tr id=(id) { (cells) } }.into_string();
            (id, text)
        };
        Part {
            id,
            top: top.into_string(),
            head: head.into_string(),
            rows: rows.into_iter().map(row).collect(),
        }
    }

    fn top(&self) -> String {
        let top = maud::PreEscaped(&self.top);
        html! { div id={ (self.id) "t" } { (top) } }.into_string()
    }

    fn table(&self) -> String {
        let (id, head) = (&self.id, maud::PreEscaped(&self.head));
        html! {
            div.scroll id={ (id) "r" } {
                @if !self.rows.is_empty() {
                    table { thead { (head) } tbody { @for (_, row) in &self.rows { (maud::PreEscaped(row)) } } }
                }
            }
        }
        .into_string()
    }

    pub fn whole(&self) -> Markup {
        html! { section { (maud::PreEscaped(self.top())) (maud::PreEscaped(self.table())) } }
    }

    /// Elements to put in place of those with their ids, as far as they differ from what was sent.
    pub fn changes(&self, sent: &mut Sent, changes: &mut Map<String, Value>) {
        let top = self.top();
        if sent.is_news(&format!("{}t", self.id), &top) {
            changes.insert(format!("{}t", self.id), top.into());
        }
        let ids: Vec<&str> = self.rows.iter().map(|(id, _)| id.as_str()).collect();
        if sent.is_news(&format!("{}r", self.id), &ids.join(" ")) {
            // Rows came or went: the whole table is sent.
            self.rows.iter().for_each(|(id, row)| _ = sent.is_news(id, row));
            changes.insert(format!("{}r", self.id), self.table().into());
            return;
        }
        for (id, row) in &self.rows {
            if sent.is_news(id, row) {
                changes.insert(id.clone(), row.clone().into());
            }
        }
    }
}

/// What a page has been sent, by hashes: a thousand rows for each of fifty viewers would take more
/// memory than all else.
#[derive(Default)]
pub struct Sent {
    hasher: RandomState,
    hashes: HashMap<u64, u64>,
}

impl Sent {
    /// Whether this differs from what was sent for the element before; from now on it was sent.
    fn is_news(&mut self, id: &str, html: &str) -> bool {
        let hash = self.hasher.hash_one(html);
        self.hashes.insert(self.hasher.hash_one(id), hash) != Some(hash)
    }
}
