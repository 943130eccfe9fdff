//! What a scheduler and the process that runs a command tell each other, as bytes.

use crate::pg::command::shared_area;
use crate::pg::command::simple_query::{Completed, Failure};

/// What is to be run.
pub struct Request<C> {
    /// Of the command.
    pub encoding: i32,
    pub command: C,
}

impl Request<&[u8]> {
    /// Writes the request into memory that both share, which the handle finds; `None`: the server
    /// has no more.
    pub fn write(&self) -> Option<u32> {
        let mut bytes = Vec::with_capacity(self.command.len() + 4);
        bytes.extend_from_slice(&self.encoding.to_ne_bytes());
        bytes.extend_from_slice(self.command);
        shared_area::create(&bytes)
    }
}

impl Request<Vec<u8>> {
    /// The request of an area.
    pub fn read(area: u32) -> Option<Request<Vec<u8>>> {
        let bytes = shared_area::request(area)?;
        let (encoding, command) = number(&bytes)?;
        Some(Request { encoding, command: command.to_vec() })
    }
}

/// Writes what became of a command; the texts are in this encoding.
pub fn write_reply(area: u32, outcome: &Result<Completed, Failure>, encoding: i32) {
    let mut bytes = encoding.to_ne_bytes().to_vec();
    let mut add = |text: &[u8]| {
        bytes.extend_from_slice(&(text.len() as i32).to_ne_bytes());
        bytes.extend_from_slice(text);
    };
    match outcome {
        Ok(Completed { tag, rows }) => {
            add(tag);
            add(&rows.to_ne_bytes());
        }
        Err(Failure { sqlstate, message, detail, hint }) => {
            [&sqlstate[..], message, detail, hint].into_iter().for_each(add);
        }
    }
    shared_area::set_reply(area, &bytes);
}

/// Writes that the process leaves without having begun the command.
pub fn write_unbegun(area: u32) {
    shared_area::set_reply(area, UNBEGUN);
}

/// Whether the process left without having begun the command.
pub fn is_unbegun(area: u32) -> bool {
    shared_area::reply(area).is_some_and(|reply| reply == UNBEGUN)
}

/// A reply that is shorter than any other.
const UNBEGUN: &[u8] = b"-";

/// What became of a command, in another encoding; `None`: there is no reply.
pub fn read_reply(area: u32, wanted: i32) -> Option<Result<Completed, Failure>> {
    let bytes = shared_area::reply(area)?;
    let (encoding, mut rest) = number(&bytes)?;
    let mut texts = Vec::new();
    while let Some((length, behind)) = number(rest) {
        let (text, others) = behind.split_at_checked(length as usize)?;
        texts.push(if encoding == wanted { text.to_vec() } else { to_ascii(text) });
        rest = others;
    }
    match <[Vec<u8>; 4]>::try_from(texts) {
        Ok([sqlstate, message, detail, hint]) => {
            let sqlstate = sqlstate.try_into().ok()?;
            Some(Err(Failure { sqlstate, message, detail, hint }))
        }
        Err(texts) => {
            // Bytes of the number are no text.
            let rows = bytes.last_chunk().map(|it| u64::from_ne_bytes(*it))?;
            let [tag, _] = <[Vec<u8>; 2]>::try_from(texts).ok()?;
            Some(Ok(Completed { tag, rows }))
        }
    }
}

/// A text of another encoding, with a question mark for each byte that is not ASCII.
fn to_ascii(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if byte.is_ascii() { *byte } else { b'?' }).collect()
}

/// The number at the beginning, and what follows.
fn number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((i32::from_ne_bytes(*number), rest))
}
