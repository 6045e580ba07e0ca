//! The report as one page for a browser: streams as lanes, nodes in time order,
//! buffers by address, each hazard marked where it happens.
//!
//! # What is guaranteed
//! - The page is one file. It loads nothing and sends nothing: its content
//!   security policy admits its own script and its own style, by their hashes,
//!   and no connection at all.
//! - No name of the trace becomes markup or script. Names reach the page as
//!   JSON in which no character of markup stands bare, and the script puts them
//!   on the page as text.
//! - Without scripts the page shows the text report.

mod data;
mod json;
mod space;

use sha2::{Digest, Sha256};
use streamweir_trace::{Trace, shown};

use self::data::Data;
use crate::accesses::Shown;
use crate::error::VerifyError;
use crate::report::layout::Layout;
use crate::report::model::Report;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// The parts of the script, in the order in which they need each other.
const SCRIPT: &[&str] = &[
    include_str!("model.js"),
    include_str!("view.js"),
    include_str!("draw.js"),
    include_str!("side.js"),
    include_str!("page.js"),
];

/// The report about `trace` as a self-contained page for a browser.
///
/// `trace` is the one that the report is about; for
/// [`verify_driver`](crate::verify_driver) that is
/// [`driver_trace`](crate::driver_trace), and for a session what
/// [`lower`](crate::session::lower) makes of it.
///
/// # Errors
/// When the tables of the trace do not fit together or its edges form a cycle.
///
/// ```
/// use streamweir_trace::{Node, NodeKind, Stream, Trace};
/// use streamweir_verify::{html, verify};
///
/// let mut trace = Trace::new("decode");
/// let main = trace.add_stream(Stream::origin("main"));
/// trace.add_node(Node::new(NodeKind::kernel(), "fill").on(main));
/// let page = html(&trace, &verify(&trace)?)?;
/// assert!(page.starts_with("<!doctype html>"));
/// # Ok::<(), streamweir_verify::VerifyError>(())
/// ```
pub fn html(trace: &Trace, report: &Report) -> Result<String, VerifyError> {
    // The report may name memory that only the nodes show.
    let all = Shown::new(trace)?;
    let trace = all.trace();
    let layout = Layout::new(trace)?;
    let data = Data::new(trace, report, &layout);
    let json = json::text(&data);
    let script = SCRIPT.concat();
    let parts = [
        ("policy", policy(&script)),
        ("title", escape(&shown(&trace.name).to_string())),
        ("style", STYLE.to_owned()),
        ("text", escape(&report.to_string())),
        ("data", json),
        ("script", script),
    ];
    Ok(fill(PAGE, &parts))
}

/// The template with `{{name}}` replaced, in one pass: what a part holds is
/// never looked at again.
fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut pieces = template.split("{{");
    page.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").expect("a closed placeholder");
        let part = parts.iter().find(|(part, _)| *part == name);
        page.push_str(&part.expect("a known placeholder").1);
        page.push_str(rest);
    }
    page
}

/// What the page may do: run its own script, show its own style.
fn policy(script: &str) -> String {
    let hash = |text: &str| base64(&Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(STYLE)
    )
}

/// Text as markup that shows it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(group.get(at).copied().unwrap_or(0))
        });
        for digit in 0..4 {
            if digit <= group.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standard() {
        // RFC 4648, section 10.
        let cases = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let expected = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        for (case, expected) in cases.iter().zip(expected) {
            assert_eq!(base64(case.as_bytes()), expected);
        }
    }

    #[test]
    fn a_part_that_looks_like_a_placeholder_is_left_alone() {
        let parts = [("a", "{{b}}".to_owned()), ("b", "no".to_owned())];
        assert_eq!(fill("<{{a}}>", &parts), "<{{b}}>");
    }
}
