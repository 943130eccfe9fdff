//! SHA-256 and size of a file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    pub sha256: String,
    pub size: i64,
}

/// Reads the file in pieces, until its end or until it is no longer `wanted`: then it has no
/// checksum.
pub fn checksum(path: &Path, wanted: impl Fn() -> bool) -> io::Result<Option<Checksum>> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; 256 * 1024];
    let mut size = 0;
    while wanted() {
        match file.read(&mut piece) {
            Ok(0) => {
                let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                return Ok(Some(Checksum { sha256, size }));
            }
            Ok(length) => {
                digest.update(&piece[..length]);
                size += length as i64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
