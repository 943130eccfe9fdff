//! What changes on pages that are open: server-sent events from the snapshots.

use super::super::app::App;
use super::super::part::Part;
use super::super::request::Viewer;
use super::super::request::{Pairs, of};
use super::{lists, overview};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Several databases are looked at at about the same time.
const TOGETHER: Duration = Duration::from_millis(50);

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
