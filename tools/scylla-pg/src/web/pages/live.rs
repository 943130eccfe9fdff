//! What changes on pages that are open: server-sent events from the snapshots.

use super::super::app::{App, LogIn};
use super::super::database::{Database, Rights, Watch};
use super::super::part::{Part, Sent};
use super::super::request::{Pairs, Refusal, Viewer, of};
use super::{lists, overview, queue, task};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Several databases are looked at at about the same time.
const TOGETHER: Duration = Duration::from_millis(50);

/// What a page shows.
enum View {
    Overview,
    Workers(Arc<Database>, Rights),
    Queue(Arc<Database>, String, Rights),
    Task(Arc<Database>, TaskView),
}

/// A task that is read again when its stamp changes.
struct TaskView {
    id: String,
    stamp: String,
    /// None: the task has settled.
    watch: Option<Watch>,
    /// How many snapshots in a row did not tell of it.
    unseen: u32,
}

/// After so many snapshots a task is read that the observer may not look at.
const BLIND: u32 = 5;

impl View {
    async fn of(viewer: &Viewer, pairs: &Pairs) -> Result<View, Refusal> {
        let database = || {
            let found = viewer.app.database(of(pairs, "db")).cloned();
            found.ok_or_else(|| Refusal::not_found("there is no database of this name"))
        };
        Ok(match of(pairs, "view") {
            "overview" => View::Overview,
            "workers" => {
                let database = database()?;
                let rights = database.rights(&viewer.identity, None).await?;
                View::Workers(database, rights)
            }
            "queue" => {
                let (database, name) = (database()?, of(pairs, "name").to_owned());
                let rights = database.rights(&viewer.identity, Some(&name)).await?;
                View::Queue(database, name, rights)
            }
            "task" => {
                let (database, id) = (database()?, of(pairs, "id"));
                let watch = id.parse().ok().map(|id| database.watch(id));
                let stamp = of(pairs, "stamp").to_owned();
                View::Task(database, TaskView { id: id.to_owned(), stamp, watch, unseen: 0 })
            }
            _ => return Err(Refusal::not_found("there is no such page")),
        })
    }

    /// What may have changed.
    async fn parts(&mut self, viewer: &Viewer) -> Vec<Arc<Part>> {
        match self {
            View::Overview => {
                let mut parts = Vec::new();
                for database in &viewer.app.databases {
                    parts.push(overview::part(viewer, database).await);
                }
                parts
            }
            View::Workers(database, rights) => {
                vec![lists::workers_part(viewer, database, *rights).await.into()]
            }
            View::Queue(database, name, rights) => {
                vec![queue::part(viewer, database, name, *rights).await.into()]
            }
            View::Task(database, task) => match task.has_changed(database) {
                true => match task::look(viewer, database, &task.id).await {
                    Ok((part, stamp)) => {
                        task.watch = task.watch.take().filter(|_| stamp.is_some());
                        task.stamp = stamp.unwrap_or_default();
                        vec![part.into()]
                    }
                    // What the page shows stays: the next look tells more.
                    Err(_) => Vec::new(),
                },
                false => Vec::new(),
            },
        }
    }
}

impl TaskView {
    fn has_changed(&mut self, database: &Database) -> bool {
        let Some(id) = self.watch.as_ref().map(|it| it.id) else { return false };
        match database.snapshot.borrow().tasks.get(&id) {
            Some(stamp) => {
                self.unseen = 0;
                *stamp != self.stamp
            }
            None => {
                self.unseen = (self.unseen + 1) % BLIND;
                self.unseen == 0
            }
        }
    }
}

struct Stream {
    viewer: Viewer,
    view: View,
    ticks: watch::Receiver<u64>,
    sent: Sent,
}

pub async fn events(viewer: Viewer, pairs: Pairs) -> Response {
    let view = match View::of(&viewer, &pairs).await {
        Ok(view) => view,
        Err(refusal) => return refusal.into_response(),
    };
    let ticks = viewer.app.ticks.subscribe();
    wake(&viewer.app);
    let state = Stream { view, viewer, ticks, sent: Sent::default() };
    let events = stream::unfold(state, async |mut state| {
        loop {
            let mut changes = Map::new();
            for part in state.view.parts(&state.viewer).await {
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
    let is_there =
        !matches!(app.log_in, LogIn::Password) || app.sessions.find(&state.viewer.cookie).is_some();
    is_there.then_some(())
}

/// Pollers look at once.
fn wake(app: &Arc<App>) {
    app.databases.iter().for_each(|database| database.wake.notify_one());
}
