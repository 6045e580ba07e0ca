//! Where pages, graphs and layouts are written: never over a file that the command was
//! asked to read.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use streamweir::trace::shown;

use crate::exit::Failure;

/// One file of the command line writes to the path that was given, several
/// write into it as a folder, under their own names.
pub(crate) struct Places<'a> {
    inputs: &'a [PathBuf],
    taken: HashMap<String, u32>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(inputs: &'a [PathBuf]) -> Self {
        Self {
            inputs,
            taken: HashMap::new(),
        }
    }

    /// The name under which what is drawn of `file` is written, without its
    /// ending; files of one name in different folders are numbered.
    pub(crate) fn stem(&mut self, file: &Path) -> String {
        let stem = file.file_stem().unwrap_or(file.as_os_str());
        let stem = stem.to_string_lossy().into_owned();
        let count = self.taken.entry(stem.clone()).or_insert(0);
        *count += 1;
        match *count {
            1 => stem,
            more => format!("{stem}-{more}"),
        }
    }

    pub(crate) fn write(
        &self,
        path: &Path,
        stem: &str,
        ending: &str,
        text: &str,
    ) -> Result<(), Failure> {
        let failed = |path: &Path, error| {
            Failure::new(format_args!(
                "{} cannot be written: {error}",
                shown(path.display())
            ))
        };
        let mut path = path.to_path_buf();
        if self.inputs.len() > 1 {
            if path.exists() && !path.is_dir() {
                return Err(Failure::new(format_args!(
                    "{} is no folder: what is drawn of several files is written into one",
                    shown(path.display())
                )));
            }
            fs::create_dir_all(&path).map_err(|error| failed(&path, error))?;
            path.push(format!("{stem}.{ending}"));
        }
        if let Some(input) = self.inputs.iter().find(|input| is_same(input, &path)) {
            return Err(Failure::new(format_args!(
                "{} is not written: it is the file {} that is read",
                shown(path.display()),
                shown(input.display())
            )));
        }
        fs::write(&path, text).map_err(|error| failed(&path, error))
    }
}

/// Whether two paths lead to one file that is there, by whatever name or link.
fn is_same(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let file = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino()));
        matches!((file(one), file(other)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    {
        matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
    }
}
