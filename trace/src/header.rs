//! What kind of file this is, found out from its first fields.
//!
//! A file of another version is to be named as such, and not refused for a field
//! that this version does not know. So format and version are looked for first.
//! Writers put them in front, and the search ends as soon as it has both: it
//! costs a few bytes of a file of any size.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};

/// The value of the `format` field of a trace.
pub const FORMAT: &str = "streamweir-trace";

/// The version that this build writes.
pub const VERSION: u32 = 3;

/// The oldest version that this build reads. Each later one has added optional
/// fields, whose absence means what the older version meant.
pub const OLDEST_VERSION: u32 = 2;

/// The fields that every file of this crate has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) version: u32,
}

impl Header {
    /// The header of a JSON text in memory.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut found = Fields::default();
        let end = serde_json::Deserializer::from_slice(bytes).deserialize_map(Search {
            found: &mut found,
            version_too: true,
        });
        match (found.format, found.version, end) {
            (Some(format), Some(version), _) => Ok(Self { format, version }),
            (_, _, Err(error)) => Err(error),
            (None, ..) => Err(serde_json::Error::missing_field("format")),
            (_, None, _) => Err(serde_json::Error::missing_field("version")),
        }
    }
}

/// The field `format` of a JSON file of any kind, from its first bytes where it
/// stands in front.
///
/// # Errors
/// When the file is no JSON object up to there, or has no such field.
pub fn format_of(file: &[u8]) -> Result<String, serde_json::Error> {
    let mut found = Fields::default();
    let end = serde_json::Deserializer::from_slice(file).deserialize_map(Search {
        found: &mut found,
        version_too: false,
    });
    match (found.format, end) {
        (Some(format), _) => Ok(format),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(serde_json::Error::missing_field("format")),
    }
}

#[derive(Debug, Default)]
struct Fields {
    format: Option<String>,
    version: Option<u32>,
}

struct Search<'a> {
    found: &'a mut Fields,
    version_too: bool,
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with the field `format`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "format" => self.found.format = Some(map.next_value()?),
                "version" if self.version_too => self.found.version = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            if self.found.format.is_some() && (!self.version_too || self.found.version.is_some()) {
                // An error is the one way to leave an object before its end.
                return Err(A::Error::custom("nothing more to look for"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_where_it_has_what_it_wants() {
        let cut_off = br#"{"format":"f","version":7,"trace":{"no"#;
        let header = Header::of(cut_off).expect("the rest is not looked at");
        assert_eq!((header.format.as_str(), header.version), ("f", 7));
        assert_eq!(format_of(br#"{"format":"f","x":"#).expect("found"), "f");
    }

    #[test]
    fn the_order_of_the_fields_does_not_matter() {
        let header = Header::of(br#"{"trace":{"a":[1]},"version":7,"format":"f"}"#);
        assert_eq!(header.expect("both are there").version, 7);
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        for (text, says) in [
            (r#"{"version":7}"#, "missing field `format`"),
            (r#"{"format":"f"}"#, "missing field `version`"),
            (r#"{"format":"f","version":"7"}"#, "expected u32"),
            (r#"{"format":"f","#, "EOF"),
            ("[1]", "expected a JSON object"),
            ("", "EOF"),
        ] {
            let error = Header::of(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
