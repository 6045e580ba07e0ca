//! From a file to a dump.

use super::error::DumpError;
use super::file;
use super::model::Dump;

impl Dump {
    /// Reads a dump and checks that its tables fit together.
    ///
    /// # Errors
    /// When the bytes are no JSON, no capture dump, beyond the
    /// [`Limits`](crate::dump::Limits), or contradict themselves. The message
    /// names the place.
    pub fn from_json(bytes: &[u8]) -> Result<Self, DumpError> {
        Self::of_file(serde_json::from_slice(bytes)?)
    }

    fn of_file(file: file::File) -> Result<Self, DumpError> {
        let dump = file.into_dump()?;
        dump.check()?;
        Ok(dump)
    }
}
