//! `web`

use crate::failure::Failure;
use crate::web::{LogIn, Named, Network, Options, serve};
use axum::http::{HeaderName, Uri};
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a web page: queues, tasks, workers and schedules, live
#[derive(Args)]
#[command(after_help = "\
A viewer acts as a database role, and the database decides what that role may see and do:
  - by default, viewers log in with a role and its password;
  - with --role-header, a proxy that you trust says the role of each request;
  - with --role, all viewers have that role, and cannot change anything unless --access full.
For the last two, the role that the program connects as must be a member of the others.

Examples:
  scylla-pg web -d postgresql://monitor@localhost/jobs
  scylla-pg web --role viewer --listen 0.0.0.0:8080
  scylla-pg web --database live,#c33=postgresql://db1/jobs --database test=postgresql://db2/jobs
  scylla-pg web --trusted-proxy 10.0.0.5 --role-header X-Remote-User --public-url https://ops.example.com/scylla")]
pub struct Web {
    /// Address and port on which the page is served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// A database by a name and a colour of its own; repeat it for several
    #[arg(long, value_name = "NAME[,COLOUR]=CONNECTION", value_parser = database, conflicts_with = "dbname")]
    database: Vec<Named>,
    /// All viewers have this role
    #[arg(long, conflicts_with = "role_header")]
    role: Option<String>,
    /// Header in which the proxy says the role
    #[arg(long, value_name = "NAME", requires = "trusted_proxy")]
    role_header: Option<HeaderName>,
    /// Address, or network such as 10.0.0.0/24, of a proxy whose headers are believed
    #[arg(long, value_name = "ADDRESS")]
    trusted_proxy: Vec<Network>,
    /// What viewers may do at most [default: read-only with --role, else full]
    #[arg(long)]
    access: Option<Access>,
    /// What browsers call the page, also below a path: https://example.com/scylla
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public_url: Option<PublicUrl>,
    /// Certificate for TLS, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Access {
    ReadOnly,
    Full,
}

#[derive(Clone, Debug)]
struct PublicUrl {
    origin: String,
    base: String,
}

fn database(text: &str) -> Result<Named, String> {
    let (name, dbname) = text.split_once('=').ok_or("NAME=CONNECTION is needed")?;
    let (name, colour) = name.split_once(',').map_or((name, None), |(a, b)| (a, Some(b)));
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "-_".contains(it);
    if name.is_empty()
        || !name.chars().all(is_letter)
        || ["events", "login", "logout", "assets", "metrics"].contains(&name)
    {
        return Err("a name has the letters a to z, 0 to 9, - and _".into());
    }
    let is_colour = |it: &str| {
        let digits = it.strip_prefix('#').unwrap_or_default();
        [3, 6].contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_hexdigit())
    };
    if !colour.is_none_or(is_colour) {
        return Err("a colour is written as #c33".into());
    }
    Ok(Named {
        name: name.to_owned(),
        colour: colour.map(str::to_owned),
        dbname: Some(dbname.to_owned()),
    })
}

fn public_url(text: &str) -> Result<PublicUrl, String> {
    let uri: Uri = text.parse().map_err(|_| "this is not a URL")?;
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority())
    else {
        return Err("it begins with https:// or http://".into());
    };
    if uri.query().is_some()
        || authority.as_str().contains('@')
        || uri.path().contains(['{', '}', ';'])
    {
        return Err("only a host, a port and a path are allowed".into());
    }
    Ok(PublicUrl {
        origin: format!("{scheme}://{authority}"),
        base: uri.path().trim_end_matches('/').to_owned(),
    })
}

impl Web {
    pub async fn run(self, dbname: Option<String>) -> Result<(), Failure> {
        let is_fixed = self.role.is_some();
        let by_tls = self.tls_cert.is_some() || !self.trusted_proxy.is_empty();
        let log_in = match (self.role, self.role_header) {
            (Some(role), _) if role == "none" => {
                return Err(Failure::usage("role \"none\" is the program's own"));
            }
            (Some(role), _) => LogIn::Fixed(role),
            (None, Some(header)) => LogIn::Header(header),
            (None, None) => LogIn::Password,
        };
        if matches!(log_in, LogIn::Password) && !self.listen.ip().is_loopback() && !by_tls {
            return Err(Failure::usage("passwords need TLS on this address")
                .hint("Give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy, and name it by --trusted-proxy."));
        }
        let databases = match self.database.is_empty() {
            true => vec![Named { name: "db".to_owned(), colour: None, dbname }],
            false => self.database,
        };
        let mut names: Vec<_> = databases.iter().map(|it| &it.name).collect();
        names.sort();
        if names.windows(2).any(|it| it[0] == it[1]) {
            return Err(Failure::usage("two databases have the same name"));
        }
        let (origin, base) = match self.public_url {
            Some(url) => (Some(url.origin), url.base),
            None => (None, String::new()),
        };
        serve(Options {
            listen: self.listen,
            databases,
            writable: self.access.map_or(!is_fixed, |it| it == Access::Full),
            log_in,
            origin,
            base,
            trusted: self.trusted_proxy,
            tls: self.tls_cert.zip(self.tls_key),
        })
        .await
    }
}
