//! Where pages and graphs are written.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::exit::Failure;

/// One file of the command line writes to the path that was given, several
/// write into it as a folder, under their own names.
pub(super) struct Places {
    several: bool,
    taken: HashMap<String, u32>,
}

impl Places {
    pub(super) fn new(files: usize) -> Self {
        Self {
            several: files > 1,
            taken: HashMap::new(),
        }
    }

    /// The name under which what is drawn of `file` is written, without its
    /// ending; files of one name in different folders are numbered.
    pub(super) fn stem(&mut self, file: &Path) -> String {
        let stem = file.file_stem().unwrap_or(file.as_os_str());
        let stem = stem.to_string_lossy().into_owned();
        let count = self.taken.entry(stem.clone()).or_insert(0);
        *count += 1;
        match *count {
            1 => stem,
            more => format!("{stem}-{more}"),
        }
    }

    pub(super) fn write(
        &self,
        path: &Path,
        stem: &str,
        ending: &str,
        text: &str,
    ) -> Result<(), Failure> {
        let failed = |path: &Path, error| {
            Failure::new(format_args!(
                "{} cannot be written: {error}",
                path.display()
            ))
        };
        let mut path = path.to_path_buf();
        if self.several {
            if path.exists() && !path.is_dir() {
                return Err(Failure::new(format_args!(
                    "{} is no folder: what is drawn of several files is written into one",
                    path.display()
                )));
            }
            fs::create_dir_all(&path).map_err(|error| failed(&path, error))?;
            path.push(format!("{stem}.{ending}"));
        }
        fs::write(&path, text).map_err(|error| failed(&path, error))
    }
}
