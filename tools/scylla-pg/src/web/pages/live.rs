//! What changes on pages that are open: server-sent events from the snapshots.

use super::super::app::App;
use super::super::request::Viewer;
use super::{Pairs, lists, of, overview};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use maud::{Markup, html};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Several databases are looked at at about the same time.
const TOGETHER: Duration = Duration::from_millis(50);

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
    fn changes(&self, sent: &mut HashMap<String, String>, changes: &mut Map<String, Value>) {
        let mut put = |id: String, html: String| {
            if sent.get(&id) != Some(&html) {
                changes.insert(id.clone(), html.clone().into());
                sent.insert(id, html);
            }
        };
        put(format!("{}t", self.id), self.top());
        let ids: Vec<&str> = self.rows.iter().map(|(id, _)| id.as_str()).collect();
        let (key, ids) = (format!("{}ids", self.id), ids.join(" "));
        if sent.get(&key) != Some(&ids) {
            sent.insert(key, ids);
            sent.extend(self.rows.iter().cloned());
            changes.insert(format!("{}r", self.id), self.table().into());
            return;
        }
        let mut put = |id: &String, html: &String| {
            if sent.get(id) != Some(html) {
                changes.insert(id.clone(), html.clone().into());
                sent.insert(id.clone(), html.clone());
            }
        };
        self.rows.iter().for_each(|(id, row)| put(id, row));
    }
}

async fn parts(viewer: &Viewer, view: &str, database: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for one in &viewer.app.databases {
        match view {
            "overview" => parts.push(overview::part(viewer, one).await),
            "workers" if one.name == database => parts.push(lists::workers_part(viewer, one).await),
            _ => {}
        }
    }
    parts
}

struct Stream {
    viewer: Viewer,
    view: String,
    database: String,
    ticks: watch::Receiver<u64>,
    sent: HashMap<String, String>,
}

pub async fn events(viewer: Viewer, pairs: Pairs) -> Response {
    let ticks = viewer.app.ticks.subscribe();
    wake(&viewer.app);
    let state = Stream {
        view: of(&pairs, "view").to_owned(),
        database: of(&pairs, "db").to_owned(),
        viewer,
        ticks,
        sent: HashMap::new(),
    };
    let events = stream::unfold(state, async |mut state| {
        loop {
            let mut changes = Map::new();
            for part in parts(&state.viewer, &state.view, &state.database).await {
                part.changes(&mut state.sent, &mut changes);
            }
            if !changes.is_empty() {
                let event = Event::default().data(Value::Object(changes).to_string());
                return Some((Ok::<_, Infallible>(event), state));
            }
            wait(&mut state).await?;
        }
    });
    let mut response = Sse::new(events)
        .keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
        .into_response();
    response.headers_mut().insert("x-accel-buffering", "no".parse().expect("it is a header"));
    response
}

/// Until there is a new snapshot. `None`: the viewer has logged out.
async fn wait(state: &mut Stream) -> Option<()> {
    let _ = timeout(Duration::from_secs(10), state.ticks.changed()).await;
    sleep(TOGETHER).await;
    state.ticks.mark_unchanged();
    let app = &state.viewer.app;
    let is_there = !matches!(app.log_in, super::super::app::LogIn::Password)
        || app.sessions.find(&state.viewer.cookie).is_some();
    is_there.then_some(())
}

/// Pollers look at once.
fn wake(app: &Arc<App>) {
    app.databases.iter().for_each(|database| database.wake.notify_one());
}
