//! SHA-256 and size of a file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::options::Result;

#[derive(PartialEq, Eq)]
pub struct Checksum {
    pub sha256: String,
    pub size: i64,
}

/// Reads the file in pieces, and calls `between` after each. The outer error is that of `between`.
pub fn checksum(
    path: &Path,
    mut between: impl FnMut() -> Result<()>,
) -> Result<io::Result<Checksum>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let mut digest = Sha256::new();
    let mut piece = vec![0; 256 * 1024];
    let mut size = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => {
                digest.update(&piece[..length]);
                size += length as i64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
        between()?;
    }
    Ok(Ok(Checksum { sha256: format!("{:x}", digest.finalize()), size }))
}
