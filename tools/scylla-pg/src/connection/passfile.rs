//! Passwords from `~/.pgpass`.

use super::conninfo::{Parameters, SOCKET_FOLDERS};
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Sets the password, unless it is known, by the first line that is for this connection.
pub fn find_password(parameters: &mut Parameters) {
    let named = parameters.take("passfile").map(PathBuf::from);
    let Some(path) = named.or_else(|| Some(env::home_dir()?.join(".pgpass"))) else { return };
    let (Ok(about), None) = (fs::metadata(&path), parameters.get("password")) else { return };
    if about.mode() & 0o077 != 0 {
        eprintln!(
            "WARNING: {} is ignored, since others than its owner may read it: chmod 600",
            path.display()
        );
        return;
    }
    let Ok(text) = fs::read_to_string(&path) else { return };
    let of = |name| parameters.get(name).unwrap_or_default();
    let host = of("host").split(',').next().unwrap_or_default();
    let port = of("port").split(',').next().filter(|port| !port.is_empty()).unwrap_or("5432");
    let host = if SOCKET_FOLDERS.contains(&host) { "localhost" } else { host };
    if let Some(password) = password(&text, [host, port, of("dbname"), of("user")]) {
        parameters.set("password", password);
    }
}

/// The last field of the first line whose other fields are these, or `*`.
fn password(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).map(fields).find_map(|mut fields| {
        let is_for = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        (fields.len() == 5 && fields.iter().zip(&wanted).all(is_for)).then(|| fields.remove(4))
    })
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' => fields.push(String::new()),
            letter => {
                let letter = if letter == '\\' { letters.next() } else { Some(letter) };
                fields.last_mut().expect("there is one at first").extend(letter);
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_matches_counts() {
        let text = "# h:1:d:u:no\nh:1:other:u:no\nh:*:d:u:a\\:b\\\\c\n*:*:*:*:last";
        assert_eq!(password(text, ["h", "1", "d", "u"]).unwrap(), r"a:b\c");
        assert_eq!(password(text, ["x", "1", "d", "u"]).unwrap(), "last");
        assert_eq!(password("h:1:d:u", ["h", "1", "d", "u"]), None);
    }
}
