//! The web page: what the queues, tasks, workers and schedules do, and what a role may do to them.

mod access;
mod app;
mod cron;
mod database;
mod frame;
mod html;
mod jobs;
mod log;
mod pages;
mod part;
mod poller;
mod request;
mod snapshot;

use crate::failure::Failure;
use crate::listen::{self, Peer};
use crate::metrics;
pub use access::Network;
use access::{Identity, Sessions, Signer, Throttle};
use app::App;
pub use app::LogIn;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use database::Database;
use jobs::Jobs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// One database, as the page calls it.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    /// Such as `#c00`.
    pub colour: Option<String>,
    pub dbname: Option<String>,
}

pub struct Options {
    pub listen: SocketAddr,
    pub databases: Vec<Named>,
    pub log_in: LogIn,
    pub writable: bool,
    pub origin: Option<String>,
    pub base: String,
    pub trusted: Vec<Network>,
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where Prometheus finds the numbers.
    pub metrics: Option<SocketAddr>,
}

const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// Serves until a signal ends the program.
pub async fn serve(options: Options) -> Result<(), Failure> {
    let tls = options.tls.as_ref().map(|(cert, key)| listen::tls(cert, key)).transpose()?;
    let is_public = options.origin.is_some();
    let by_https = options.origin.as_deref().is_some_and(|it| it.starts_with("https:"));
    let observer = match &options.log_in {
        LogIn::Fixed(role) => Identity::Role(role.clone()),
        _ => Identity::Program,
    };
    let database = |it: Named| {
        let Named { name, colour, dbname } = it;
        let has_metrics = options.metrics.is_some();
        let observer = observer.clone();
        Arc::new(Database::new(name, colour, dbname, options.writable, observer, has_metrics))
    };
    let app = Arc::new(App {
        databases: options.databases.into_iter().map(database).collect(),
        log_in: options.log_in,
        writable: options.writable,
        secure: tls.is_some() || by_https,
        only_local: options.listen.ip().is_loopback() && !is_public,
        base: options.base,
        origin: options.origin,
        trusted: options.trusted,
        signer: Signer::new(),
        sessions: Sessions::default(),
        throttle: Throttle::default(),
        jobs: Jobs::default(),
        ticks: watch::Sender::new(0),
    });
    let listener = bind(options.listen, "--listen").await?;
    let metrics = match options.metrics {
        Some(address) => Some(bind(address, "--metrics").await?),
        None => None,
    };
    let address = listener.local_addr()?;
    for database in &app.databases {
        tokio::spawn(poller::poll(database.clone(), app.ticks.clone()));
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = match &app.origin {
        Some(origin) => format!("{origin}{}/", app.base),
        None => format!("{scheme}://{address}{}/", app.base),
    };
    let listening = |url: String| {
        eprintln!(
            "{}",
            serde_json::json!({ "time": html::now(), "event": "listening", "url": url })
        );
    };
    listening(url);
    if let Some(listener) = metrics {
        listening(format!("http://{}/metrics", listener.local_addr()?));
        let connections = listen::accept(listener, None, listen::LIMITS)?;
        tokio::spawn(axum::serve(connections, numbers(&app)).into_future());
    }
    let service = router(app).into_make_service_with_connect_info::<Peer>();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let connections = listen::accept(listener, tls, listen::LIMITS)?;
    let served = std::pin::pin!(axum::serve(connections, service).into_future());
    let ended = std::pin::pin!(async {
        let (term, int) = (std::pin::pin!(term.recv()), std::pin::pin!(int.recv()));
        futures_util::future::select(term, int).await;
    });
    futures_util::future::select(served, ended).await;
    Ok(())
}

async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(format!("could not listen on {address}: {error}"))
            .hint(format!("Name another address and port by {option}."))
    })
}

/// For Prometheus: each database below its name, and the first one without it.
fn numbers(app: &App) -> Router {
    let mut router = Router::new();
    for (n, database) in app.databases.iter().enumerate() {
        let of = database.clone();
        let read = move || {
            let snapshot = of.snapshot.borrow().clone();
            let numbers = snapshot.numbers.as_deref().filter(|_| snapshot.error.is_none());
            numbers.cloned().ok_or_else(|| Failure::new("the database does not answer"))
        };
        let exporter = metrics::Exporter::of(read, metrics::MAX_NAMES);
        router = router.nest(&format!("/{}", database.name), metrics::router(exporter.clone()));
        if n == 0 {
            router = router.merge(metrics::router(exporter));
        }
    }
    router
}

fn router(app: Arc<App>) -> Router {
    let base = app.base.clone();
    let asset = |kind: &'static str, text: &'static str| {
        get(async move || {
            let kind = (header::CONTENT_TYPE, HeaderValue::from_static(kind));
            ([kind, (header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600"))], text)
        })
    };
    let pages = pages::router()
        .route(&frame::asset("app.css"), asset("text/css; charset=utf-8", frame::CSS))
        .route(&frame::asset("app.js"), asset("text/javascript; charset=utf-8", frame::JS))
        .route(&frame::asset("icon.svg"), asset("image/svg+xml", frame::ICON))
        .fallback(pages::lost);
    let pages = match base.as_str() {
        "" => pages,
        // A nested route of "/" is the base without a slash at its end.
        base => Router::new().route(&format!("{base}/"), pages::home()).nest(base, pages),
    };
    pages.with_state(app.clone()).layer(from_fn_with_state(app, guarded))
}

/// The page of a refusal, and the headers of all answers.
async fn guarded(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = frame::framed(&app.base, next.run(request).await);
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
