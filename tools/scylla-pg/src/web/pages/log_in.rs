//! Logging in and out.

use super::super::access::Identity;
use super::super::app::{App, LogIn};
use super::super::frame::bare;
use super::super::html::notice;
use super::super::log::log;
use super::super::request::{Pairs, of};
use super::super::request::{Posted, Refusal, Viewer, set_cookie};
use crate::failure::Failure;
use crate::output::duration;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::join_all;
use maud::{Markup, html};
use serde_json::json;
use std::sync::Arc;
use tokio_postgres::error::SqlState;

/// No role has a longer name, in bytes.
const NAME_MAX: usize = 63;

pub async fn page(State(app): State<Arc<App>>, pairs: Pairs, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match Viewer::of(&app, &parts) {
        Err(response) => response,
        Ok((viewer, true)) => viewer.answer(Redirect::to(&viewer.url("/"))),
        Ok((viewer, false)) => form(&viewer, of(&pairs, "next"), "", None),
    }
}

fn form(viewer: &Viewer, next: &str, role: &str, problem: Option<Markup>) -> Response {
    let body = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem { (problem) }
        @if !viewer.origin.is_private {
            (notice("error", "A password would be readable on its way here.", None, Some("Call this page by https, or from the machine that it runs on.")))
        } @else {
            form.stack method="post" action=(viewer.url("/login")) {
                (viewer.token_field())
                input type="hidden" name="next" value=(next);
                label { "Database role" input name="role" value=(role) autocomplete="username" autocapitalize="none" spellcheck="false" required autofocus; }
                label { "Password" input name="password" type="password" autocomplete="current-password" required; }
                button.main { "Log in" }
            }
            p.quiet { "You can see and do here what this role may see and do in the database." }
        }
    };
    viewer.answer(bare(&viewer.app.base, "Log in", body))
}

pub async fn log_in(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (viewer, is_known) = match Viewer::of(&app, &parts) {
        Ok(viewer) => viewer,
        Err(response) => return response,
    };
    let posted = match Posted::from_request(Request::from_parts(parts, body), &app).await {
        Ok(posted) => posted,
        Err(response) => return response,
    };
    if is_known || !matches!(app.log_in, LogIn::Password) {
        return Redirect::to(&viewer.url("/")).into_response();
    }
    let (role, password, next) = (posted.get("role"), posted.get("password"), posted.get("next"));
    let refused = |status: StatusCode, problem: Markup| {
        let mut response = form(&viewer, next, role, Some(problem));
        *response.status_mut() = status;
        response
    };
    if !viewer.origin.is_private {
        return refused(StatusCode::FORBIDDEN, html! {});
    }
    let wrong = || {
        let text = "This role and this password do not go together.";
        refused(StatusCode::UNAUTHORIZED, notice("error", text, None, None))
    };
    if role.len() > NAME_MAX {
        return wrong();
    }
    let peer = viewer.origin.peer;
    if let Err(wait) = app.throttle.begin(peer, role) {
        let title = format!(
            "Too many logins failed: try again in {}.",
            duration(wait.as_secs_f64().ceil())
        );
        return refused(StatusCode::TOO_MANY_REQUESTS, notice("error", &title, None, None));
    }
    let identity = Identity::Password { role: role.to_owned(), password: password.to_owned() };
    let attempts = app.databases.iter().map(|database| database.log_in(role, password));
    let results = join_all(attempts).await;
    let is_in = results.iter().any(Result::is_ok);
    let databases: Vec<_> = app
        .databases
        .iter()
        .zip(&results)
        .filter(|(_, it)| it.is_ok())
        .map(|(it, _)| &it.name)
        .collect();
    log("login", peer, &identity, json!({ "succeeded": is_in, "databases": databases }));
    if is_in {
        app.throttle.succeeded(peer, role);
        app.sessions.end(&viewer.cookie);
        let cookie = app.sessions.begin(identity);
        let mut response = Redirect::to(&local(&app, next)).into_response();
        set_cookie(&app, &mut response, &cookie);
        return response;
    }
    let failure = results.into_iter().filter_map(Result::err).next();
    let failure = failure.unwrap_or_else(|| Failure::new("there is no database"));
    // What the server says of a role that does not exist must not differ from a wrong password.
    let is_wrong = |code: &SqlState| {
        [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION].contains(code)
    };
    if failure.code.as_ref().is_some_and(is_wrong) {
        return wrong();
    }
    let refusal = Refusal::from(failure);
    refused(refusal.status, refusal.html())
}

/// A path of this site, below its base.
fn local(app: &App, next: &str) -> String {
    let path = next.strip_prefix(&app.base).unwrap_or("");
    let is_local = path.starts_with('/') && !path.starts_with("//") && !next.starts_with("//");
    if is_local
        && !path.contains(|it: char| it == '\\' || it.is_control())
        && !path.starts_with("/log")
    {
        next.to_owned()
    } else {
        format!("{}/", app.base)
    }
}

pub async fn log_out(viewer: Viewer, _: Posted) -> Response {
    viewer.app.sessions.end(&viewer.cookie);
    for database in &viewer.app.databases {
        database.forget(&viewer.identity);
    }
    log("logout", viewer.origin.peer, &viewer.identity, json!({}));
    Redirect::to(&viewer.url("/login")).into_response()
}
