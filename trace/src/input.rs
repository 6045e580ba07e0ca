//! Files as bytes, with an end.
//!
//! Whoever names a file may name a device that never ends, or a pipe that
//! somebody forgot to close. Reading stops at a cap that is said, in front of
//! anything that looks at the bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use thiserror::Error;

/// The most bytes that are read of a file: 2 GiB.
pub const FILE_LIMIT: u64 = 1 << 31;

/// The most bytes that are read of what is no regular file, a pipe or a device:
/// 256 MiB.
pub const STREAM_LIMIT: u64 = 1 << 28;

/// Why a file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system says why.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
    /// The path is that of a directory.
    #[error("is a directory; name the files in it")]
    Directory,
    /// There is nothing in the file.
    #[error("is empty; was it written to its end?")]
    Empty,
    /// There is more than is read.
    #[error("has more than {limit} bytes, which is the most that is read of {what}")]
    TooLong {
        /// How many are read.
        limit: u64,
        /// What is read.
        what: &'static str,
    },
}

/// All bytes of the file at `path`, which is opened once, so that a pipe will do.
///
/// # Errors
/// When it cannot be read, is a directory or empty, or has more bytes than
/// [`FILE_LIMIT`], or [`STREAM_LIMIT`] for a pipe or a device.
pub fn read_file(path: &Path) -> Result<Vec<u8>, ReadError> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(ReadError::Directory);
    }
    let (limit, what) = match about.is_file() {
        true => (FILE_LIMIT, "a file"),
        false => (STREAM_LIMIT, "a pipe or a device"),
    };
    let expected = if about.is_file() { about.len() } else { 0 };
    if expected > limit {
        return Err(ReadError::TooLong { limit, what });
    }
    bounded(file, expected, limit).and_then(|bytes| match bytes {
        None => Err(ReadError::TooLong { limit, what }),
        Some(bytes) if bytes.is_empty() => Err(ReadError::Empty),
        Some(bytes) => Ok(bytes),
    })
}

/// The bytes of `input`, of which so many are expected; `None` when there are
/// more than `limit`.
fn bounded(input: impl Read, expected: u64, limit: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
    let read = input.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((read as u64 <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_not_read_to_its_end() {
        assert!(
            bounded(io::repeat(b' '), 0, 1 << 16)
                .expect("no failure")
                .is_none()
        );
        let all = bounded(&b"abc"[..], 3, 3).expect("no failure");
        assert_eq!(all.as_deref(), Some(&b"abc"[..]));
        assert!(bounded(&b"abc"[..], 3, 2).expect("no failure").is_none());
    }

    #[test]
    fn a_directory_is_no_file() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(matches!(read_file(here), Err(ReadError::Directory)));
    }
}
