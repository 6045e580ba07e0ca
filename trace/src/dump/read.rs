//! From a file to a dump.

use std::io::Read;

use super::error::DumpError;
use super::file;
use super::model::Dump;

impl Dump {
    /// Reads a dump and checks that its tables fit together. The input is read
    /// once and not kept.
    ///
    /// # Errors
    /// When the input cannot be read, is no JSON, no capture dump, beyond the
    /// [`Limits`], or contradicts itself. The message names the place.
    pub fn from_reader(input: impl Read) -> Result<Self, DumpError> {
        let mut reader = serde_json::Deserializer::from_reader(std::io::BufReader::new(input));
        let file = serde::Deserialize::deserialize(&mut reader).map_err(DumpError::from)?;
        reader.end()?;
        Self::of_file(file)
    }

    /// The same from bytes in memory.
    ///
    /// # Errors
    /// As [`from_reader`](Self::from_reader).
    pub fn from_json(bytes: &[u8]) -> Result<Self, DumpError> {
        Self::of_file(serde_json::from_slice(bytes)?)
    }

    fn of_file(file: file::File) -> Result<Self, DumpError> {
        let dump = file.into_dump()?;
        dump.check()?;
        Ok(dump)
    }
}
