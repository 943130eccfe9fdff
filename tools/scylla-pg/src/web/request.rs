//! A request: the viewer behind it, and whether a form is really the viewer's own.

use super::access::{Identity, is_same, random};
use super::app::{App, LogIn};
use super::database::Database;
use super::html::encode;
use crate::failure::Failure;
use crate::listen::Peer;
use axum::Form;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::net::IpAddr;
use std::sync::Arc;
use tokio_postgres::error::SqlState;

const COOKIE: &str = "scylla_session";

/// A page that says why there is no other.
pub struct Refusal {
    pub status: StatusCode,
    pub failure: Failure,
}

impl Refusal {
    pub fn new(status: StatusCode, message: &str, hint: &str) -> Refusal {
        Refusal { status, failure: Failure::new(message).hint(hint) }
    }

    pub fn not_found(what: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, what, "Check the address, or begin at the overview.")
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        let is = |code: SqlState| failure.code == Some(code);
        let status =
            if is(SqlState::INSUFFICIENT_PRIVILEGE) || is(SqlState::READ_ONLY_SQL_TRANSACTION) {
                StatusCode::FORBIDDEN
            } else if is(SqlState::NO_DATA_FOUND) {
                StatusCode::NOT_FOUND
            } else if is(SqlState::QUERY_CANCELED) {
                StatusCode::GATEWAY_TIMEOUT
            } else if failure.code.is_some() {
                StatusCode::BAD_REQUEST
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
        Refusal { status, failure }
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Refusal {
        Failure::from(error).into()
    }
}

/// Where a request comes from.
#[derive(Clone)]
pub struct Origin {
    pub peer: IpAddr,
    /// No one on the way can read a password.
    pub is_private: bool,
}

/// The browser's cookie, and the role that it acts as.
#[derive(Clone)]
pub struct Viewer {
    pub app: Arc<App>,
    pub identity: Identity,
    pub origin: Origin,
    pub cookie: String,
    /// The browser has none yet.
    is_new: bool,
}

impl Viewer {
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.app.base)
    }

    /// Of the forms of this browser and role.
    pub fn token(&self) -> String {
        self.app.signer.token(&self.cookie, self.identity.role())
    }

    pub fn token_field(&self) -> Markup {
        html! { input type="hidden" name="token" value=(self.token()); }
    }

    /// Gives the browser its cookie, if it has none.
    pub fn answer(&self, response: impl IntoResponse) -> Response {
        let mut response = response.into_response();
        if self.is_new {
            set_cookie(&self.app, &mut response, &self.cookie);
        }
        response
    }
}

pub fn set_cookie(app: &App, response: &mut Response, cookie: &str) {
    let secure = if app.secure { "; Secure" } else { "" };
    let text = format!("{COOKIE}={cookie}; Path={}/; HttpOnly; SameSite=Strict{secure}", app.base);
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|it| it.trim().split_once('='));
    let mut values = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    values
        .find(|it| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit()))
        .map(str::to_owned)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A name of this machine, with or without a port.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn origin(app: &App, parts: &Parts) -> Result<Origin, Refusal> {
    let peer = parts.extensions.get::<ConnectInfo<Peer>>().map(|it| it.0.clone());
    let peer = peer.ok_or_else(|| Refusal::not_found("no peer"))?;
    let address = peer.address.ip().to_canonical();
    let trusted = app.trusts(address);
    let headers = &parts.headers;
    let host = text(headers, "host").unwrap_or_default();
    if app.only_local && !trusted && !is_local(host) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this address is not one of this machine",
            "Call it by localhost, or start the program with --public-url.",
        ));
    }
    let forwarded = ["forwarded", "x-forwarded-for"].iter().any(|it| headers.contains_key(*it));
    let is_private = match trusted {
        true => {
            text(headers, "x-forwarded-proto").is_some_and(|it| it == "https")
                || !forwarded && address.is_loopback()
        }
        false => peer.tls || address.is_loopback() && !forwarded,
    };
    // The last address is the one that the trusted proxy has seen.
    let client =
        text(headers, "x-forwarded-for").and_then(|it| it.rsplit(',').next()?.trim().parse().ok());
    Ok(Origin { peer: client.filter(|_| trusted).unwrap_or(address), is_private })
}

impl Viewer {
    /// Also without a role: for the page on which to log in.
    #[expect(clippy::result_large_err, reason = "a refusal is a page, as in axum's extractors")]
    pub fn of(app: &Arc<App>, parts: &Parts) -> Result<(Viewer, bool), Response> {
        let refuse = |refusal: Refusal| refusal.into_response();
        let origin = origin(app, parts).map_err(refuse)?;
        let known = cookie(&parts.headers);
        // A link on another site brings no cookie. Loading the page again from here does.
        let is_foreign = text(&parts.headers, "sec-fetch-site") == Some("cross-site");
        if known.is_none() && is_foreign && parts.method.is_safe() {
            return Err(axum::response::Html(
                html! {
                    (super::html::DOCTYPE)
                    html lang="en" {
                        head { title { "scylla" } meta http-equiv="refresh" content="0"; }
                        body { a href="" { "Go on" } }
                    }
                }
                .into_string(),
            )
            .into_response());
        }
        let is_new = known.is_none();
        let cookie = known.unwrap_or_else(random);
        let identity = match &app.log_in {
            LogIn::Fixed(role) => Some(Identity::Role(role.clone())),
            LogIn::Password => app.sessions.find(&cookie),
            LogIn::Header(name) => {
                let by = parts.extensions.get::<ConnectInfo<Peer>>().map(|it| it.0.address.ip());
                if !by.is_some_and(|it| app.trusts(it)) {
                    return Err(refuse(Refusal::new(
                        StatusCode::FORBIDDEN,
                        "this page is only for requests of the proxy",
                        "Call it by the proxy's address.",
                    )));
                }
                let mut values = parts.headers.get_all(name).into_iter();
                let role = match (values.next().map(HeaderValue::to_str), values.next()) {
                    (Some(Ok(role)), None) if !role.is_empty() && role != "none" => role,
                    _ => {
                        return Err(refuse(Refusal::new(
                            StatusCode::FORBIDDEN,
                            "the proxy did not say which role this is",
                            "Log in at the proxy. It has to set the header once.",
                        )));
                    }
                };
                Some(Identity::Role(role.to_owned()))
            }
        };
        let is_known = identity.is_some();
        let identity = identity.unwrap_or(Identity::Program);
        Ok((Viewer { app: app.clone(), identity, origin, cookie, is_new }, is_known))
    }
}

impl FromRequestParts<Arc<App>> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Viewer, Response> {
        match Viewer::of(app, parts)? {
            (viewer, true) => Ok(viewer),
            (viewer, false) => {
                let next = parts.uri.path_and_query().map_or("", |it| it.as_str());
                let next =
                    if parts.method.is_safe() && !next.contains("/events") { next } else { "" };
                let to = format!("{}/login?next={}", app.base, encode(next));
                Err(viewer.answer(Redirect::to(&to)))
            }
        }
    }
}

/// A viewer who looks at the database that the path names.
pub struct At {
    pub viewer: Viewer,
    pub database: Arc<Database>,
}

impl FromRequestParts<Arc<App>> for At {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<At, Response> {
        let viewer = Viewer::from_request_parts(parts, app).await?;
        let path = RawPathParams::from_request_parts(parts, app).await;
        let path = path.map_err(IntoResponse::into_response)?;
        let name = path.iter().find(|(name, _)| *name == "db").map_or("", |(_, value)| value);
        match app.database(name) {
            Some(database) => Ok(At { database: database.clone(), viewer }),
            None => Err(Refusal::not_found("there is no database of this name").into_response()),
        }
    }
}

/// What a form has sent that this program made for the browser.
pub struct Posted(Vec<(String, String)>);

impl Posted {
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

fn forged(why: &str) -> Response {
    Refusal::new(StatusCode::FORBIDDEN, why, "Load the page again, and send the form from there.")
        .into_response()
}

/// Whether browsers would have sent the request from a page of this site.
fn is_own(app: &App, headers: &HeaderMap) -> bool {
    if text(headers, "sec-fetch-site").is_some_and(|it| it != "same-origin" && it != "none") {
        return false;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    match &app.origin {
        Some(own) => origin == own,
        None => {
            let host = text(headers, "host").unwrap_or_default();
            origin.split_once("://").is_some_and(|(_, it)| it == host)
        }
    }
}

impl FromRequest<Arc<App>> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Posted, Response> {
        if !is_own(app, request.headers()) {
            return Err(forged("the form came from another site"));
        }
        let (parts, body) = request.into_parts();
        let (viewer, _) = Viewer::of(app, &parts)?;
        let form = Form::from_request(Request::from_parts(parts, body), app).await;
        let posted = Posted(form.map_err(IntoResponse::into_response)?.0);
        if !is_same(posted.get("token"), &viewer.token()) {
            return Err(forged("the form is too old, or not of this page"));
        }
        Ok(posted)
    }
}

/// The pairs of a query.
pub type Pairs = Query<Vec<(String, String)>>;

pub fn of<'a>(pairs: &'a Pairs, name: &str) -> &'a str {
    pairs.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value)
}
