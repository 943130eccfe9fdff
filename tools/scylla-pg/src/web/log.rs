//! The program's log: JSON, on stderr.

use super::access::Identity;
use serde_json::{Value, json};
use std::net::IpAddr;

/// One line of the log.
pub fn log(event: &str, peer: IpAddr, identity: &Identity, mut more: Value) {
    let mut line = json!({
        "time": super::html::now(),
        "event": event,
        "peer": peer.to_string(),
        "role": identity.role(),
    });
    if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object_mut()) {
        line.append(more);
    }
    eprintln!("{line}");
}
