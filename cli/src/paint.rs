//! Colour, where standard output is a terminal and `NO_COLOR` is not set.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};

/// Whether to use colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

/// A text in a colour.
pub(crate) struct Painted<T> {
    text: T,
    code: Option<&'static str>,
}

impl Paint {
    pub(crate) fn for_stdout() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && io::stdout().is_terminal())
    }

    /// No colour.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(false)
    }

    pub(crate) fn bold<T: fmt::Display>(self, text: T) -> Painted<T> {
        self.with("1", text)
    }

    pub(crate) fn faint<T: fmt::Display>(self, text: T) -> Painted<T> {
        self.with("2", text)
    }

    /// Red where it is bad, green where it is good.
    pub(crate) fn judged<T: fmt::Display>(self, good: bool, text: T) -> Painted<T> {
        self.with(if good { "32" } else { "1;31" }, text)
    }

    fn with<T>(self, code: &'static str, text: T) -> Painted<T> {
        Painted {
            text,
            code: self.0.then_some(code),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => self.text.fmt(f),
            Some(code) => {
                write!(f, "\x1b[{code}m")?;
                // Width and alignment count the text alone.
                self.text.fmt(f)?;
                f.write_str("\x1b[0m")
            }
        }
    }
}
