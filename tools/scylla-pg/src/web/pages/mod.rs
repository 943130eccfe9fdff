//! The pages.

mod act;
mod filter;
mod graph;
mod lists;
mod live;
mod log_in;
mod overview;
mod queue;
mod schedules;
mod task;
mod tasks;

use super::app::App;
use super::request::{Refusal, Viewer};
use axum::Router;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

/// The first page.
pub fn home() -> MethodRouter<Arc<App>> {
    get(overview::page)
}

pub async fn lost(viewer: Viewer) -> Response {
    Refusal::not_found("there is no such page").show(&viewer, None, "")
}

pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/", home())
        .route("/login", get(log_in::page).post(log_in::log_in))
        .route("/logout", post(log_in::log_out))
        .route("/events", get(live::events))
        .route("/{db}/tasks", get(tasks::page))
        .route("/{db}/tasks/{id}", get(task::page))
        .route("/{db}/tasks/{id}/{part}", get(task::download))
        .route("/{db}/queue", get(queue::page))
        .route("/{db}/workers", get(lists::workers))
        .route("/{db}/schedules", get(schedules::page))
        .route("/{db}/schedule", get(schedules::one))
        .route("/{db}/groups", get(lists::groups))
        .route("/{db}/groups/list", get(lists::groups_list))
        .route("/{db}/sql", get(lists::sql))
        .route("/{db}/roles", get(lists::roles))
        .route("/{db}/confirm", post(act::confirm))
        .route("/{db}/act", post(act::act))
        .route("/{db}/jobs/{id}", get(act::job).post(act::stop))
}
