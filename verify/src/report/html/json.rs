//! The data of the page as JSON that stays JSON inside of a script element, with
//! every text as it is to be shown.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};
use streamweir_trace::shown;

/// `data` as JSON. Its texts are shown escaped, as everywhere: what the page's
/// script reads holds no control character and nothing that turns the direction
/// of text.
pub(super) fn text(data: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut writer = Serializer::with_formatter(&mut bytes, Texts);
    data.serialize(&mut writer)
        .expect("the data has no map and no failing part, and a vector takes all");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

struct Texts;

impl Formatter for Texts {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Backslashes of the text itself are written by the function below.
        let text = shown(fragment).to_string().replace('\\', "\\\\");
        for letter in text.chars() {
            match letter {
                // Markup stands only inside of strings, where an escape means the same.
                '<' | '>' | '&' => write!(writer, "\\u{:04x}", u32::from(letter))?,
                _ => write!(writer, "{letter}")?,
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let letter = match escape {
            CharEscape::Quote => return writer.write_all(b"\\\""),
            CharEscape::ReverseSolidus => return writer.write_all(b"\\\\"),
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        };
        self.write_string_fragment(writer, letter.encode_utf8(&mut [0; 4]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_leaves_a_string() {
        let hostile = "</script><!--&\u{2028}\n\u{1b}\u{9b}\u{202e}\\n\"";
        let json = text(&hostile);
        let bare = ['<', '>', '&', '\u{2028}', '\u{202e}', '\u{9b}'];
        assert!(
            !json.contains(bare) && !json.contains(char::is_control),
            "{json}"
        );
        let read: String = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read, shown(hostile).to_string());
    }
}
