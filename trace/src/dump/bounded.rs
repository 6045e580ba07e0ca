//! Lists and bytes that end where the format says so, as they are read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::model::Limits;
use crate::hex::decode;

/// A list of at most `MAX` entries.
pub(super) struct Capped<T, const MAX: usize>(pub(super) Vec<T>);

impl<T, const MAX: usize> Default for Capped<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Capped<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX} entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    if entries.len() == MAX {
                        return Err(A::Error::invalid_length(MAX + 1, &self));
                    }
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer
            .deserialize_seq(List::<T, MAX>(PhantomData))
            .map(Self)
    }
}

/// Bytes in hexadecimal, decoded as they are read.
pub(super) struct Hex(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let most = Limits::PARAM_BYTES;
                write!(
                    f,
                    "an even number of hexadecimal digits, for at most {most} bytes"
                )
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hex, E> {
                if text.len() > 2 * Limits::PARAM_BYTES || !text.len().is_multiple_of(2) {
                    return Err(E::invalid_length(text.len(), &self));
                }
                decode(text)
                    .map(Hex)
                    .ok_or_else(|| E::custom("a letter that is no hexadecimal digit"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}
