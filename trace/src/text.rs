//! Text that came from outside, as it may be shown.
//!
//! A file names its buffers, kernels and streams as it likes. Printed as it
//! stands, a name can end the line and write a verdict of its own, move the
//! cursor, hide what follows, or turn the direction of its neighbours. So nothing
//! of a file reaches a terminal, a page or a drawing but through [`shown`].

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A number of things, in English.
///
/// ```
/// use streamweir_trace::Count;
///
/// assert_eq!(Count::of(1, "stream").to_string(), "1 stream");
/// assert_eq!(Count::of(2, "access").to_string(), "2 accesses");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Count {
    number: u64,
    thing: &'static str,
}

impl Count {
    /// `number` of what one is called `thing`.
    pub fn of(number: u64, thing: &'static str) -> Self {
        Self { number, thing }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, thing } = self;
        let plural = match (number, thing.ends_with('s')) {
            (1, _) => "",
            (_, true) => "es",
            (_, false) => "s",
        };
        write!(f, "{number} {thing}{plural}")
    }
}

/// `text` on one line, with every character escaped that does not simply show:
/// control characters of both sets (C0 and C1), ends of lines, marks that turn
/// the direction of text, characters of no width, and white space that is not a
/// plain space. What is escaped is what the standard library escapes in `{:?}`,
/// apart from quotes, backslashes and marks that combine with a letter, which
/// harm nobody.
///
/// ```
/// use streamweir_trace::shown;
///
/// let name = "x\n\nsafe: capture \"x\"\u{1b}[8m\u{202e}";
/// assert_eq!(shown(name).to_string(), r#"x\n\nsafe: capture "x"\u{1b}[8m\u{202e}"#);
/// assert_eq!(shown("Größe \\ 大小").to_string(), "Größe \\ 大小");
/// ```
pub fn shown<T: fmt::Display>(text: T) -> Shown<T> {
    Shown(text)
}

/// What [`shown`] gives.
#[derive(Clone, Copy, Debug)]
pub struct Shown<T>(T);

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// The most characters of a name that is said again with each thing that is said of
/// it.
const LONGEST: usize = 256;

/// `name`, or so much of its beginning as a line can hold. Names have no bound, and
/// what is found about one thing may be thousands of lines that each name it.
///
/// ```
/// use streamweir_trace::clipped;
///
/// assert_eq!(clipped("keys"), "keys");
/// assert_eq!(clipped(&"ü".repeat(300)), "ü".repeat(255) + "…");
/// ```
pub fn clipped(name: &str) -> Cow<'_, str> {
    // A name of so few bytes has no more characters.
    if name.len() <= LONGEST {
        return Cow::Borrowed(name);
    }
    let mut ends = name.char_indices().map(|(at, _)| at).skip(LONGEST - 1);
    match (ends.next(), ends.next()) {
        (Some(end), Some(_)) => Cow::Owned(format!("{}…", &name[..end])),
        _ => Cow::Borrowed(name),
    }
}

/// Whether a character shows as it stands.
///
/// ```
/// # use streamweir_trace::shows;
/// assert!(shows('a') && shows('"') && shows('\u{301}'));
/// assert!(!shows('\n') && !shows('\u{9b}') && !shows('\u{2066}') && !shows('\u{200b}'));
/// ```
pub fn shows(letter: char) -> bool {
    if letter.is_ascii() {
        return !letter.is_ascii_control();
    }
    // Behind a letter a combining mark is no reason to escape.
    let mut pair = [b'a'; 5];
    let len = letter.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..=len]).is_ok_and(|pair| pair.escape_debug().nth(2).is_none())
}

struct Escaping<'f, 'b>(&'f mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|letter| !shows(letter)) {
            self.0.write_str(&rest[..at])?;
            let mut letters = rest[at..].chars();
            if let Some(letter) = letters.next() {
                write!(self.0, "{}", letter.escape_debug())?;
            }
            rest = letters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control characters, ends of lines, marks of direction and characters of
    /// no width, by what Unicode calls them and not by the library's own tables.
    const HARMFUL: &[std::ops::RangeInclusive<u32>] = &[
        0x00..=0x1f,
        0x7f..=0x9f,
        0xad..=0xad,
        0x61c..=0x61c,
        0x180e..=0x180e,
        0x200b..=0x200f,
        0x2028..=0x202e,
        0x2060..=0x2064,
        0x2066..=0x206f,
        0xfeff..=0xfeff,
        0xfff9..=0xfffb,
        0xe0001..=0xe0001,
        0xe0020..=0xe007f,
    ];

    #[test]
    fn nothing_harmful_is_left() {
        for letter in HARMFUL.iter().cloned().flatten().filter_map(char::from_u32) {
            let text = shown(format!("a{letter}b")).to_string();
            assert!(text.starts_with("a\\") && text.ends_with('b'), "{text:?}");
            assert!(text.chars().all(shows), "{text:?}");
        }
    }

    #[test]
    fn names_of_people_and_kernels_stay_as_they_are() {
        for name in [
            "void k<4, __half>(float*)",
            "C:\\kernels\\\"a\".cu",
            "e\u{301}té, Größe, 大小, ключ, \u{1f600}",
        ] {
            assert_eq!(shown(name).to_string(), name);
        }
    }
}
