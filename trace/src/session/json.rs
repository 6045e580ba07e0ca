//! The file format: one JSON object, versioned. docs/session-format.md
//! describes every field.

use serde::{Deserialize, Serialize};

use super::error::{FORMAT, SessionError, VERSION};
use super::model::Session;
use crate::header::Header;

#[derive(Serialize)]
struct FileOut<'a> {
    format: &'a str,
    version: u32,
    session: &'a Session,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIn {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    session: Session,
}

impl Session {
    /// Writes the session as indented JSON.
    pub fn to_json(&self) -> String {
        let file = FileOut {
            format: FORMAT,
            version: VERSION,
            session: self,
        };
        serde_json::to_string_pretty(&file)
            // Every key is a string and no Serialize impl of this crate fails.
            .expect("a session always has a JSON form")
    }

    /// Reads a session and checks that its tables fit together.
    ///
    /// # Errors
    /// When the bytes are no JSON, of another format or version, or when
    /// [`check`](Self::check) refuses the result.
    pub fn from_json(bytes: &[u8]) -> Result<Self, SessionError> {
        let header = Header::of(bytes)?;
        if header.format != FORMAT {
            return Err(SessionError::Format(header.format));
        }
        if header.version != VERSION {
            return Err(SessionError::Version {
                found: header.version,
            });
        }
        let file: FileIn = serde_json::from_slice(bytes)?;
        file.session.check()?;
        Ok(file.session)
    }
}
