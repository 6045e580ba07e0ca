//! Cubins on disk.
//!
//! An entry's name is a digest of all that its bytes depend on, and the entry
//! ends in a digest of its own bytes. It is written under a name of its own and
//! renamed, so that a reader, in this process or another, sees a whole entry or
//! none; two writers of one entry write the same bytes.

use std::env;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Program, Version};

/// The variable that names the cache folder.
pub const ENV_CACHE: &str = "STREAMWEIR_CACHE";

/// Marks the trailer and its format: these bytes, then the digest.
const MAGIC: &[u8; 8] = b"swcubin1";
const TRAILER: usize = MAGIC.len() + 32;

/// The name of an entry.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a program compiled with these options (the architecture is one
    /// of them) by this compiler.
    pub fn new(program: &Program, options: &[String], compiler: Version) -> Self {
        let mut digest = Sha256::new();
        // Each part with its length, so that no two lists of parts agree.
        let mut part = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        part(MAGIC);
        part(compiler.to_string().as_bytes());
        part(program.name.as_bytes());
        part(program.source.as_bytes());
        part(&(program.headers.len() as u64).to_le_bytes());
        for header in &program.headers {
            part(header.name.as_bytes());
            part(header.source.as_bytes());
        }
        part(&[u8::from(program.toolkit_headers)]);
        for option in options {
            part(option.as_bytes());
        }
        Self(digest.finalize().into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The cache could not be read or written.
#[derive(Debug, Error)]
#[error("cannot {what} {}: {source}; set {ENV_CACHE} to a folder that can be written", path.display())]
pub struct CacheError {
    /// What was tried.
    pub what: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

/// A folder of cubins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in `folder`, which need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The cache of this process: `STREAMWEIR_CACHE`, else `streamweir` in
    /// `XDG_CACHE_HOME`, else in `.cache` of the home folder. `None` when none
    /// of these is set.
    pub fn from_env() -> Option<Self> {
        let set = |name| {
            env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        set(ENV_CACHE)
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("streamweir")))
            .or_else(|| set("HOME").map(|home| home.join(".cache").join("streamweir")))
            .map(Self::at)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the entry of `key` stands.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{key}.cubin"))
    }

    /// The entry of `key`; `None` when there is none or it is not whole.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, CacheError> {
        let path = self.path(key);
        match fs::read(&path) {
            Ok(bytes) => Ok(unseal(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CacheError {
                what: "read",
                path,
                source,
            }),
        }
    }

    /// Makes `cubin` the entry of `key`.
    ///
    /// # Errors
    /// When the folder cannot be made or written. The former entry stays then,
    /// and nothing else is left behind.
    pub fn put(&self, key: &Key, cubin: &[u8]) -> Result<(), CacheError> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| CacheError { what, path, source }
        };
        fs::create_dir_all(&self.folder).map_err(failed("create", &self.folder))?;
        let entry = self.path(key);
        let partial = self.folder.join(format!(
            ".{key}.{}.{}",
            process::id(),
            WRITES.fetch_add(1, Ordering::Relaxed)
        ));
        let written = write(&partial, cubin)
            .map_err(failed("write", &partial))
            .and_then(|()| fs::rename(&partial, &entry).map_err(failed("replace", &entry)));
        if written.is_err() {
            // The first failure is the one to report; a partial file that cannot
            // be removed is never read.
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

fn write(path: &Path, cubin: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(cubin)?;
    file.write_all(MAGIC)?;
    file.write_all(&Sha256::digest(cubin))
}

/// The cubin of an entry's bytes, if its trailer agrees.
fn unseal(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let len = bytes.len().checked_sub(TRAILER)?;
    let (cubin, trailer) = bytes.split_at(len);
    let (magic, digest) = trailer.split_at(MAGIC.len());
    if magic != MAGIC || digest != Sha256::digest(cubin).as_slice() {
        return None;
    }
    bytes.truncate(len);
    Some(bytes)
}
