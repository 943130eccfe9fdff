//! The frame around each page.

use super::app::LogIn;
use super::database::Database;
use super::html::{DOCTYPE, notice};
use super::request::{Refusal, Viewer};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, PreEscaped, html};

pub const CSS: &str = include_str!("assets/app.css");
pub const JS: &str = include_str!("assets/app.js");
pub const ICON: &str = include_str!("assets/icon.svg");

/// The path of an asset. Another version of the program has another path, so that browsers may keep
/// it.
pub fn asset(name: &str) -> String {
    format!("/assets/{}/{name}", env!("CARGO_PKG_VERSION"))
}

const PAGES: [(&str, &str); 6] = [
    ("tasks", "Tasks"),
    ("workers", "Workers"),
    ("schedules", "Schedules"),
    ("groups", "Groups"),
    ("sql", "SQL tasks"),
    ("roles", "Roles"),
];

/// What a page is about.
pub struct Page<'a> {
    pub title: &'a str,
    /// One of the pages of a database.
    pub here: &'a str,
    pub database: Option<&'a Database>,
    /// The part of the events that the page shows.
    pub live: Option<String>,
    /// The page loads itself again and again.
    pub reloads: bool,
}

impl<'a> Page<'a> {
    pub fn new(title: &'a str, database: Option<&'a Database>, here: &'a str) -> Page<'a> {
        Page { title, here, database, live: None, reloads: false }
    }

    pub fn live(self, view: &str) -> Page<'a> {
        Page { live: Some(view.to_owned()), ..self }
    }

    pub fn show(&self, viewer: &Viewer, body: Markup) -> Response {
        viewer.answer(Html(self.html(viewer, body).into_string()))
    }

    fn html(&self, viewer: &Viewer, body: Markup) -> Markup {
        let app = &viewer.app;
        let several = app.databases.len() > 1;
        let database = self.database.or(app.databases.first().filter(|_| !several).map(|it| &**it));
        let events = self.live.as_ref().map(|view| viewer.url(&format!("/events?{view}")));
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(&app.base, self.title, self.reloads))
                body data-events=[events] {
                    a.skip href="#main" { "To the content" }
                    header {
                        a.brand href=(viewer.url("/")) { (mark()) "scylla" }
                        nav aria-label="Pages" {
                            a href=(viewer.url("/")) aria-current=[current(self.here == "overview")] { "Overview" }
                            @if let Some(database) = database {
                                @for (path, title) in PAGES {
                                    a href=(viewer.url(&format!("/{}/{path}", database.name))) aria-current=[current(self.here == path)] { (title) }
                                }
                            }
                        }
                        @if several {
                            nav.databases aria-label="Databases" {
                                @for one in &app.databases {
                                    a href=(viewer.url(&format!("/{}/{}", one.name, if self.here == "overview" || self.here.is_empty() { "tasks" } else { self.here })))
                                        aria-current=[current(self.database.is_some_and(|it| it.name == one.name))] { (dot(one)) (one.name) }
                                }
                            }
                        }
                        div.who {
                            button.live type="button" hidden aria-pressed="true" { "Live" }
                            @if !app.writable { span.badge title="nothing can be changed from here" { "read-only" } }
                            span.role title="the database role that you act as" { bdi { (viewer.identity.role()) } }
                            @if matches!(app.log_in, LogIn::Password) {
                                form method="post" action=(viewer.url("/logout")) {
                                    (viewer.token_field())
                                    button.plain { "Log out" }
                                }
                            }
                        }
                    }
                    main id="main" tabindex="-1" { (body) }
                }
            }
        }
    }
}

fn current(is_current: bool) -> Option<&'static str> {
    is_current.then_some("page")
}

/// The colour of a database.
pub fn dot(database: &Database) -> Markup {
    html! {
        @if let Some(colour) = &database.colour {
            svg.dot width="10" height="10" viewBox="0 0 10 10" aria-hidden="true" { circle cx="5" cy="5" r="5" fill=(colour) {} }
        }
    }
}

fn mark() -> Markup {
    html! {
        svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" {
            rect.mark x="1" y="2" width="18" height="4" rx="2" {}
            rect.mark.second x="1" y="8" width="12" height="4" rx="2" {}
            rect.mark.third x="1" y="14" width="7" height="4" rx="2" {}
        }
    }
}

pub fn head(base: &str, title: &str, reloads: bool) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · scylla" }
            link rel="stylesheet" href={ (base) (asset("app.css")) };
            link rel="icon" href={ (base) (asset("icon.svg")) };
            script src={ (base) (asset("app.js")) } defer {}
            @if reloads { noscript { meta http-equiv="refresh" content="2"; } }
        }
    }
}

/// A page for a visitor without a role.
pub fn bare(base: &str, title: &str, body: Markup) -> Html<String> {
    Html(
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(base, title, false))
                body.bare { main id="main" { p.brand { (mark()) "scylla" } (body) } }
            }
        }
        .into_string(),
    )
}

impl Refusal {
    /// Within the frame of the page that was asked for.
    pub fn show(&self, viewer: &Viewer, database: Option<&Database>, here: &str) -> Response {
        let mut response = Page::new("Not done", database, here).show(viewer, self.html());
        *response.status_mut() = self.status;
        response
    }

    pub fn html(&self) -> Markup {
        let failure = &self.failure;
        let is_away = self.status == StatusCode::SERVICE_UNAVAILABLE;
        let hint = failure.hint.as_deref().or(match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                Some("Load the page again when the database server is back.")
            }
            StatusCode::GATEWAY_TIMEOUT => {
                Some("Name a queue, a status or a time, so that fewer tasks are read.")
            }
            _ => None,
        });
        let title = match is_away && failure.code.is_none() {
            true => format!("The database cannot be reached: {}", failure.message),
            false => failure.message.clone(),
        };
        notice("error", &title, failure.detail.as_deref(), hint)
    }
}

/// The text of a refusal. `framed` makes a page of it, which knows where the stylesheet is.
#[derive(Clone)]
struct Refused(String);

/// The response, with its page if it is a refusal.
pub fn framed(base: &str, mut response: Response) -> Response {
    let Some(Refused(text)) = response.extensions_mut().remove() else { return response };
    let (parts, _) = response.into_parts();
    (parts.status, parts.headers, bare(base, "Not done", PreEscaped(text))).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(Refused(self.html().into_string()));
        response
    }
}

/// The page of what was read, or of why it could not be.
pub fn shown(result: Result<Markup, Refusal>, page: &Page<'_>, viewer: &Viewer) -> Response {
    match result {
        Ok(body) => page.show(viewer, body),
        Err(refusal) => refusal.show(viewer, page.database, page.here),
    }
}
