//! The regular files below a folder, without following links.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

#[derive(Default)]
pub struct Files {
    pub paths: Vec<String>,
    /// Names that are not UTF-8 cannot be stored in a spec.
    pub not_utf8: usize,
    /// Files and folders without read permission.
    pub unreadable: usize,
}

pub fn below(folder: &Path) -> io::Result<Files> {
    let mut files = Files::default();
    let mut folders: Vec<PathBuf> = vec![fs::canonicalize(folder)?];
    fs::read_dir(&folders[0])?;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            files.unreadable += 1;
            continue;
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.add(entry.path()),
                Ok(_) => {}
                Err(_) => files.unreadable += 1,
            }
        }
    }
    files.paths.sort_unstable();
    Ok(files)
}

impl Files {
    fn add(&mut self, path: PathBuf) {
        if File::open(&path).is_err() {
            self.unreadable += 1;
        } else if let Ok(path) = path.into_os_string().into_string() {
            self.paths.push(path);
        } else {
            self.not_utf8 += 1;
        }
    }
}
