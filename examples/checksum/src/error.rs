//! Errors of every kind, and how they are told.

use std::{error::Error, iter};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The message with its causes: the driver's own says only "db error".
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
