//! What a run is watched with.
//!
//! All of it is off unless it is asked for, and then no node, no call and no byte
//! of it is there. See `docs/instruments.md`.

use std::fmt;
use std::str::FromStr;

use streamweir::{Differential, GuardReport, Poison};

/// What a run is watched with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruments {
    /// Scratch that holds nothing yet is filled with NaNs.
    pub poison: Poison,
    /// Guards lie around everything persistent and around the arena, and are
    /// looked at when an arm has run.
    pub canary: bool,
    /// Each step is compared with the same step on one stream without graphs,
    /// command by command, until one differs.
    pub differential: bool,
}

impl Instruments {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Adds one by its word: `canary`, `poison` or `differential`.
    ///
    /// # Errors
    /// When it is another word.
    pub fn with(mut self, word: &str) -> Result<Self, UnknownInstrument> {
        match word {
            "canary" => self.canary = true,
            "poison" => self.poison = Poison::Reused,
            "differential" => self.differential = true,
            _ => return Err(UnknownInstrument(word.to_owned())),
        }
        Ok(self)
    }
}

impl FromStr for Instruments {
    type Err = UnknownInstrument;

    /// Words with commas between them.
    fn from_str(words: &str) -> Result<Self, UnknownInstrument> {
        words
            .split(',')
            .map(str::trim)
            .try_fold(Self::default(), Self::with)
    }
}

/// A word that is no instrument's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no instrument \"{0}\"; there are canary, poison and differential")]
pub struct UnknownInstrument(String);

/// What the instruments of an arm found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What the guards look like, where there are any.
    pub guards: Option<GuardReport>,
    /// What the comparison of each step says, where it was made.
    pub compared: Option<Compared>,
}

/// The steps that were compared with the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// How many, the one that differs included.
    pub steps: u64,
    /// The first that differs.
    pub first: Option<FirstDifference>,
}

/// The first step that differs from the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// Which step, counted from 1.
    pub step: u64,
    /// Rows of the batch that ran, padding included.
    pub rows: u32,
    /// Where it differs.
    pub differential: Differential,
    /// Whether the verifier had a hazard about the first buffer that differs.
    pub named: bool,
}

impl Findings {
    /// Whether no guard is damaged and no step differs.
    pub fn is_clean(&self) -> bool {
        let guards = self.guards.as_ref();
        let compared = self.compared.as_ref();
        guards.is_none_or(GuardReport::is_clean)
            && compared.is_none_or(|compared| compared.first.is_none())
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if let Some(guards) = &self.guards {
            lines.push(guards.to_string());
        }
        match &self.compared {
            None => {}
            Some(Compared { steps, first: None }) => {
                lines.push(format!("{steps} steps compared, none differs"));
            }
            Some(Compared {
                first: Some(first), ..
            }) => lines.push(first.to_string()),
        }
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step,
            rows,
            differential,
            named,
        } = self;
        let verifier = match named {
            true => {
                "the verifier has a hazard about this buffer, or about the command that wrote it"
            }
            false => {
                "the verifier has no hazard about this buffer, nor about the command that wrote it"
            }
        };
        write!(
            f,
            "step {step}, of {rows} rows: {differential}\n  {verifier}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruments_are_found_by_their_words() {
        let all: Instruments = "canary, poison,differential".parse().unwrap();
        let expected = Instruments {
            poison: Poison::Reused,
            canary: true,
            differential: true,
        };
        assert_eq!(all, expected);
        assert!(all.any() && !Instruments::default().any());
        let error = "canary,x-ray".parse::<Instruments>().unwrap_err();
        assert!(error.to_string().contains("x-ray"), "{error}");
    }
}
