//! Numbers and bytes as hexadecimal digits, which is how files hold addresses
//! and parameters: a JSON number does not hold every 64-bit address in every
//! reader.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// An address as it stands in a file, read without a copy of its text: there are
/// two for each access.
pub(crate) struct Address(pub(crate) u64);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Address;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit hexadecimal number such as \"0x1f00\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Address, E> {
                number(text).map(Address).ok_or_else(|| {
                    E::custom(format!(
                        "expected a 64-bit hexadecimal number such as \"0x1f00\", found {text:?}"
                    ))
                })
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

#[inline]
fn number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &letter| {
        // Room for four more bits, or the number is beyond 64.
        (number >> 60 == 0).then_some(number << 4 | u64::from(digit(letter)?))
    })
}

#[inline]
fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

/// The bytes that two digits each stand for; `None` when a letter is no digit,
/// or one is left over.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
    bytes.collect::<Option<_>>().filter(|_| odd.is_empty())
}

/// A field that is one address.
pub(crate) mod address {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        address: &u64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{address:#x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        super::Address::deserialize(deserializer).map(|super::Address(address)| address)
    }
}

/// A field that is any number of bytes.
pub(crate) mod bytes {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            text.push(DIGITS[usize::from(byte >> 4)] as char);
            text.push(DIGITS[usize::from(byte & 15)] as char);
        }
        serializer.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an even number of hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
                super::decode(text)
                    .ok_or_else(|| E::custom("expected an even number of hexadecimal digits"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}
