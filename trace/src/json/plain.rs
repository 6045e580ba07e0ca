//! A reader of plain JSON, which is what programs write: of numbers only whole
//! ones from zero on, and of types only those whose form is known beforehand.
//!
//! # What is guaranteed
//! A value that it reads is the one that `serde_json` reads from the same text.
//! Of anything else, errors included, it says no more than [`Odd`]; then the
//! text is `serde_json`'s, whose errors name line and column.
//!
//! # Why
//! A trace of a million nodes is 400 MB of text, and to read it ought to cost
//! less than to verify it. Half of the time went into what such a text hardly
//! ever uses: escapes, floating-point numbers, positions for errors. What a
//! field means is said once, by the `Deserialize` of its type; here are only the
//! letters. A string with escapes is `serde_json`'s.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// The text is not plain, or not of the form asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odd;

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not plain JSON of this form")
    }
}

impl std::error::Error for Odd {}

impl de::Error for Odd {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Reads one value, which is all of the text.
pub(super) fn read<'de, T: de::Deserialize<'de>>(text: &'de str) -> Result<T, Odd> {
    let mut reader = Reader { text, at: 0 };
    let value = T::deserialize(&mut reader)?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(Odd),
    }
}

struct Reader<'de> {
    text: &'de str,
    at: usize,
}

impl<'de> Reader<'de> {
    /// The next byte that is not white space; it is not taken.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Takes the next byte, which must be this one.
    #[inline]
    fn take(&mut self, byte: u8) -> Result<(), Odd> {
        match self.peek() {
            Some(next) if next == byte => {
                self.at += 1;
                Ok(())
            }
            _ => Err(Odd),
        }
    }

    /// Takes these letters, if they come next.
    fn word(&mut self, word: &str) -> bool {
        let comes = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if comes {
            self.at += word.len();
        }
        comes
    }

    #[inline]
    fn string(&mut self) -> Result<Cow<'de, str>, Odd> {
        self.take(b'"')?;
        let text = self.text;
        let rest = &text.as_bytes()[self.at..];
        let mut len = 0;
        // Eight bytes at a time until one of them ends the string or is odd.
        while let Some(chunk) = rest.get(len..).and_then(|rest| rest.first_chunk()) {
            match first_special(u64::from_le_bytes(*chunk)) {
                8 => len += 8,
                here => {
                    len += here;
                    break;
                }
            }
        }
        while !is_special(*rest.get(len).ok_or(Odd)?) {
            len += 1;
        }
        match rest[len] {
            b'"' => {
                let string = text.get(self.at..self.at + len).ok_or(Odd)?;
                self.at += len + 1;
                Ok(Cow::Borrowed(string))
            }
            b'\\' => self.escaped().map(Cow::Owned),
            _ => Err(Odd),
        }
    }

    /// A string with escapes, whose opening mark has been taken.
    #[cold]
    fn escaped(&mut self) -> Result<String, Odd> {
        let mut end = self.at;
        loop {
            match self.text.as_bytes().get(end).ok_or(Odd)? {
                b'"' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        let whole = self.text.get(self.at - 1..=end).ok_or(Odd)?;
        self.at = end + 1;
        serde_json::from_str(whole).map_err(|_| Odd)
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Odd> {
        let first = self.peek().ok_or(Odd)?;
        let digit = |byte: u8| Some(byte.wrapping_sub(b'0')).filter(|&digit| digit < 10);
        let mut number = u64::from(digit(first).ok_or(Odd)?);
        self.at += 1;
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'.' | b'e' | b'E') => return Err(Odd),
                Some(&byte) => {
                    let Some(digit) = digit(byte) else {
                        return Ok(number);
                    };
                    // No number begins with a zero but zero.
                    if number == 0 {
                        return Err(Odd);
                    }
                    let more = number.checked_mul(10);
                    number = more.and_then(|n| n.checked_add(digit.into())).ok_or(Odd)?;
                    self.at += 1;
                }
                None => return Ok(number),
            }
        }
    }
}

/// What a string cannot hold as it stands, and what ends it.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The place of the first special byte among eight, counted from the lowest; 8
/// when there is none.
#[inline]
fn first_special(word: u64) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // The high bit of each byte that is below `than`, which is at most 128. A
    // borrow reaches only bytes above one that is below too, so the first is
    // true.
    let below = |word: u64, than: u64| word.wrapping_sub(ONES * than) & !word & HIGHS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let special = below(word, 0x20) | equal(b'"') | equal(b'\\');
    special.trailing_zeros() as usize / 8
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
                visitor.visit_u64(self.number()?)
            }
        )*
    };
}

macro_rules! strings {
    ($($method:ident)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
                match self.string()? {
                    Cow::Borrowed(string) => visitor.visit_borrowed_str(string),
                    Cow::Owned(string) => visitor.visit_string(string),
                }
            }
        )*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Odd;

    numbers! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    strings! { deserialize_str deserialize_string deserialize_identifier }

    /// Types that take whatever comes are left to `serde_json`.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Odd> {
        Err(Odd)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
        self.peek();
        if self.word("true") {
            return visitor.visit_bool(true);
        }
        match self.word("false") {
            true => visitor.visit_bool(false),
            false => Err(Odd),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
        match self.peek() {
            Some(b'n') if self.word("null") => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Odd> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
        self.take(b'[')?;
        let mut items = Items::of(self, b']');
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Odd> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Odd> {
        self.take(b'{')?;
        let mut items = Items::of(self, b'}');
        let value = visitor.visit_map(&mut items)?;
        items.end()?;
        Ok(value)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Odd> {
        if self.peek() == Some(b'"') {
            return visitor.visit_enum(Variant {
                reader: self,
                bare: true,
            });
        }
        self.take(b'{')?;
        let value = visitor.visit_enum(Variant {
            reader: self,
            bare: false,
        })?;
        self.take(b'}')?;
        Ok(value)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple_struct map ignored_any
    }
}

/// The items of an array or an object.
struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    close: u8,
    first: bool,
}

impl<'r, 'de> Items<'r, 'de> {
    fn of(reader: &'r mut Reader<'de>, close: u8) -> Self {
        Self {
            reader,
            close,
            first: true,
        }
    }

    /// Whether there is another item, which is then next.
    #[inline]
    fn more(&mut self) -> Result<bool, Odd> {
        if self.reader.peek() == Some(self.close) {
            return Ok(false);
        }
        if !std::mem::replace(&mut self.first, false) {
            self.reader.take(b',')?;
        }
        Ok(true)
    }

    /// Whoever has read all that it wants may have left something.
    fn end(self) -> Result<(), Odd> {
        self.reader.take(self.close)
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Odd;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Odd> {
        match self.more()? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = Odd;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Odd> {
        match self.more()? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Odd> {
        self.reader.take(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}

/// The variant of an enum: a bare name, or the one key of an object.
struct Variant<'r, 'de> {
    reader: &'r mut Reader<'de>,
    bare: bool,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Odd;
    type Variant = Self;

    #[inline]
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Odd> {
        let name = seed.deserialize(&mut *self.reader)?;
        if !self.bare {
            self.reader.take(b':')?;
        }
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Odd;

    #[inline]
    fn unit_variant(self) -> Result<(), Odd> {
        match self.bare {
            true => Ok(()),
            false => Err(Odd),
        }
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Odd> {
        match self.bare {
            true => Err(Odd),
            false => seed.deserialize(self.reader),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Odd> {
        Err(Odd)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Odd> {
        match self.bare {
            true => Err(Odd),
            false => self.reader.deserialize_struct("", fields, visitor),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::FileIn;
    use super::*;

    const FILES: [&str; 2] = [
        include_str!("../../tests/format/data/complete.v2.json"),
        include_str!("../../tests/format/data/minimal.v2.json"),
    ];

    /// Whether it was read, which must then be as `serde_json` reads it.
    fn is_plain(text: &str) -> bool {
        let Ok(file) = read::<FileIn>(text) else {
            return false;
        };
        let other: FileIn = serde_json::from_str(text).expect("JSON, for it was read");
        assert_eq!(file.trace, other.trace);
        true
    }

    fn in_name(name: &str) -> String {
        let trace = format!(r#"{{"name":"{name}","nodes":[],"edges":[]}}"#);
        format!(r#"{{"format":"f","version":2,"trace":{trace}}}"#)
    }

    #[test]
    fn files_that_have_every_field_are_plain() {
        for text in FILES {
            assert!(is_plain(text));
            let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
            assert!(is_plain(&value.to_string()), "without white space");
        }
    }

    #[test]
    fn strings_end_where_they_end_whatever_their_length() {
        for len in 0..40 {
            for at in 0..=len {
                for (put, plain) in [
                    ("", true),
                    ("é", true),
                    ("\\\"", true),
                    ("\\\\", true),
                    ("\\u00e9", true),
                    ("\\x", false),
                    ("\n", false),
                    ("\"", false),
                ] {
                    let name = format!("{}{put}{}", "x".repeat(at), "y".repeat(len - at));
                    assert_eq!(is_plain(&in_name(&name)), plain, "{name:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_whole_and_have_one_form() {
        let file = |number: &str| {
            let text = in_name("n");
            text.replace("\"version\":2", &format!("\"version\":{number}"))
        };
        for number in ["0", "7", "10", "4294967295"] {
            assert!(is_plain(&file(number)), "{number}");
        }
        for number in [
            "",
            "01",
            "00",
            "-1",
            "1.0",
            "1e2",
            "4294967296",
            "99999999999999999999999",
            "1 2",
            "x",
        ] {
            assert!(!is_plain(&file(number)), "{number}");
        }
    }

    #[test]
    fn nothing_may_be_left_over_or_missing() {
        let text = in_name("n");
        assert!(is_plain(&format!(" {text}\n")));
        for bad in [
            format!("{text}x"),
            format!("{text}{text}"),
            text.replace("[]", "[,]"),
            text.replace("\"edges\":[]", "\"edges\":[],"),
            text.replace("[]", "[}"),
            text[..text.len() - 1].to_owned(),
            text.replace("\"format\":\"f\",", ""),
        ] {
            assert!(!is_plain(&bad), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Letters put into a file, in place of others or between them, make it
        /// what it was, another file, or odd.
        #[test]
        fn what_is_read_is_what_serde_json_reads(
            file in 0..FILES.len(),
            edits in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..3_usize, "[\\[\\]{}:,\"\\\\0-9a-fx.+eEntrul \n-]{0,2}"),
                1..4,
            ),
        ) {
            let mut text = FILES[file].to_owned();
            for (at, taken, put) in edits {
                let at = at.index(text.len() - 2);
                text.replace_range(at..at + taken, &put);
            }
            is_plain(&text);
        }
    }
}
