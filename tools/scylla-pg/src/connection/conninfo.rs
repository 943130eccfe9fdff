//! Parameters of a connection: strings as libpq reads them, and the environment.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::env;
use tokio_postgres::Config;

/// Where sockets are in Debian and elsewhere.
pub const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

const FROM_ENVIRONMENT: [(&str, &str); 15] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("options", "PGOPTIONS"),
    ("application_name", "PGAPPNAME"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// Values by libpq's names for them.
#[derive(Default)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub fn from_environment() -> Parameters {
        let set = |(name, variable): (&str, &str)| {
            let value = env::var(variable).ok().filter(|value| !value.is_empty())?;
            Some((name.to_owned(), value))
        };
        Parameters(FROM_ENVIRONMENT.into_iter().filter_map(set).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    pub fn fill(&mut self, name: &str, value: impl FnOnce() -> String) {
        self.0.entry(name.to_owned()).or_insert_with(value);
    }

    /// Reads `postgresql://…`, `name=value …`, or the name of a database.
    pub fn read(&mut self, text: &str) -> Result<(), Failure> {
        let pairs = match text.strip_prefix("postgresql://").or(text.strip_prefix("postgres://")) {
            Some(rest) => uri(rest),
            None if text.contains('=') => keywords(text),
            None => Some(vec![("dbname".into(), text.into())]),
        };
        // The string may contain a password: the message does not cite it.
        let pairs = pairs.ok_or_else(|| {
            Failure::usage("invalid connection string").hint(
                "Write postgresql://user@host:port/database, or host=… port=… dbname=… user=….",
            )
        })?;
        self.0.extend(pairs);
        Ok(())
    }

    /// What the driver understands; the rest must have been taken.
    pub fn config(&self) -> Result<Config, Failure> {
        let quoted = |(name, value): (&String, &String)| {
            format!("{name}='{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
        };
        let text: Vec<String> = self.0.iter().map(quoted).collect();
        text.join(" ").parse().map_err(|error| Failure { status: 2, ..Failure::from(error) })
    }
}

/// Reads what follows `postgresql://`.
fn uri(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            pairs.push((name.to_owned(), value));
        }
    };
    let (text, options) = text.split_once('?').unwrap_or((text, ""));
    let (authority, database) = text.split_once('/').unwrap_or((text, ""));
    let (who, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    add("user", decode(user)?);
    add("password", decode(password)?);
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for place in places.split(',') {
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':').unwrap_or(port))
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        hosts.push(decode(host)?);
        ports.push(port);
    }
    add("host", hosts.join(","));
    // Commas alone name no port.
    if ports.iter().any(|port| !port.is_empty()) {
        add("port", ports.join(","));
    }
    add("dbname", decode(database)?);
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=')?;
        add(name, decode(value)?);
    }
    Some(pairs)
}

/// Resolves `%41`.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

/// Reads `name=value name='a value'`.
fn keywords(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let is_quoted = after.starts_with('\'');
        let mut value = String::new();
        let mut letters = after.char_indices().skip(usize::from(is_quoted));
        let end = loop {
            match letters.next() {
                Some((_, '\\')) => value.push(letters.next()?.1),
                Some((at, '\'')) if is_quoted => break at + 1,
                Some((at, letter)) if letter.is_whitespace() && !is_quoted => break at,
                Some((_, letter)) => value.push(letter),
                None if is_quoted => return None,
                None => break after.len(),
            }
        };
        pairs.push((name.trim().to_owned(), value));
        rest = after[end..].trim_start();
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let mut parameters = Parameters::default();
        match parameters.read(text) {
            Ok(()) => parameters.0.iter().map(|(k, v)| format!("{k}[{v}]")).collect(),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn strings_are_read_as_libpq_reads_them() {
        for (text, expected) in [
            ("jobs", "dbname[jobs]"),
            ("host=/tmp port = 5433", "host[/tmp]port[5433]"),
            (r"user='a b\'c' password=x\ y dbname=''", "dbname[]password[x y]user[a b'c]"),
            ("postgres://h", "host[h]"),
            ("postgresql:///jobs?host=/tmp", "dbname[jobs]host[/tmp]"),
            (
                "postgresql://me:p%40ss@h1:1,[::1]:2/jobs?sslmode=require&application_name=a%20b",
                "application_name[a b]dbname[jobs]host[h1,::1]password[p@ss]port[1,2]\
                 sslmode[require]user[me]",
            ),
            ("postgresql://h1,h2/jobs", "dbname[jobs]host[h1,h2]"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_string_that_cannot_be_read_is_not_cited() {
        for text in ["host='secret", "postgresql://a:secret%4@h", "dbname=x secret"] {
            let failure = read(text);
            assert!(failure.contains("invalid connection string"), "{text}: {failure}");
            assert!(!failure.contains("secret"), "{failure}");
        }
    }
}
