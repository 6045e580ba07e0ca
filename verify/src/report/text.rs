//! The text report, in the manner of rustc: what is wrong, where, and what to
//! change. Whatever a trace names goes through [`shown`]: no name ends a line or
//! reaches a terminal raw.

use std::fmt::{self, Display, Formatter};

use streamweir_trace::{AccessMode, Count, shown};

use super::model::{Hazard, RULES, Report, Verdict};
use crate::rule::Rule;
use crate::site::{BufferNote, Site};

/// The most members of a hazard that are written out.
const MEMBERS: usize = 8;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for hazard in &self.hazards {
            writeln!(f, "{hazard}")?;
        }
        let unlisted = self.hazards_total - self.hazards.len() as u64;
        if unlisted > 0 {
            writeln!(f, "... and {unlisted} more\n")?;
        }
        let (word, total) = match self.verdict {
            Verdict::Safe => ("safe", None),
            Verdict::Possible => ("possible", Some(self.hazards_total)),
            Verdict::Hazard => ("hazard", Some(self.hazards_total)),
        };
        let [subject, part] = self.subject.words();
        write!(f, "{word}: {subject} \"{}\"", shown(&self.capture))?;
        if let Some(total) = total {
            write!(f, ", {}", Count::of(total, "hazard"))?;
        }
        let stats = &self.stats;
        writeln!(
            f,
            " ({}, {}, {}, {} compared {})",
            Count::of(stats.nodes, part),
            Count::of(stats.edges, "edge"),
            Count::of(stats.streams, "stream"),
            Count::of(stats.accesses, "access"),
            Count::of(stats.comparisons, "time"),
        )?;
        for line in &self.assumptions {
            writeln!(f, "  = assumes: {}", shown(line))?;
        }
        for line in &self.not_analysed {
            writeln!(f, "  = {}", shown(line))?;
        }
        for line in &self.undeclared {
            writeln!(f, "  = note: {}", shown(line))?;
        }
        let wasteful = || self.growth.iter().filter(|g| g.is_far_above_floor());
        for growth in wasteful() {
            writeln!(f, "  = note[R9]: {}", shown(growth))?;
        }
        if let Some(growth) = wasteful().next_back() {
            writeln!(f, "  = help[R9]: {}", shown(growth.remedy()))?;
        }
        Ok(())
    }
}

impl Display for Hazard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let level = if self.proven { "hazard" } else { "possible" };
        writeln!(f, "{level}[{}]: {}", self.rule, shown(&self.what))?;
        site(f, "-->", &self.first)?;
        if let Some(second) = &self.second {
            site(f, ":::", second)?;
        }
        writeln!(f, "   |")?;
        for line in &self.drawing {
            writeln!(f, "   | {}", shown(line))?;
        }
        if !self.drawing.is_empty() {
            writeln!(f, "   |")?;
        }
        for buffer in &self.buffers {
            writeln!(f, "   = buffer: {buffer}")?;
        }
        if !self.bytes.is_empty() {
            let len = Count::of(self.bytes.len(), "byte");
            writeln!(f, "   = bytes: {} ({len})", self.bytes)?;
        }
        for member in self.members.iter().take(MEMBERS) {
            let name = |site: &Site| match site.node {
                Some(node) => format!("{node} `{}`", shown(&site.name)),
                None => format!("`{}`", shown(&site.name)),
            };
            let (first, second) = (name(&member.first), name(&member.second));
            writeln!(f, "   = also: {first} and {second}")?;
        }
        if self.members.len() > MEMBERS {
            let more = (self.members.len() - MEMBERS) as u64;
            writeln!(f, "   = also: {} of nodes", Count::of(more, "more pair"))?;
        }
        writeln!(f, "   = help: {}", shown(&self.help))?;
        for other in &self.otherwise {
            writeln!(f, "   = or: {}", shown(other))?;
        }
        writeln!(f, "   = see: {}", page(self.rule))
    }
}

/// Where the rule is explained.
fn page(rule: Rule) -> String {
    let code = rule.code().to_lowercase();
    let numbered = code[1..].bytes().all(|digit| digit.is_ascii_digit());
    match numbered {
        true => format!("{RULES}#{code}"),
        false => RULES.to_owned(),
    }
}

fn site(f: &mut Formatter<'_>, arrow: &str, site: &Site) -> fmt::Result {
    write!(f, "  {arrow}")?;
    if let Some(node) = site.node {
        write!(f, " {node}")?;
    }
    if !site.name.is_empty() {
        write!(f, " `{}`", shown(&site.name))?;
    }
    if let Some(mode) = site.access {
        write!(f, " {}", verb(mode))?;
    }
    if let Some(stream) = &site.stream {
        write!(f, " on stream \"{}\"", shown(stream))?;
    }
    if let Some(scope) = &site.scope {
        write!(f, " in {}", shown(scope))?;
    }
    if let Some(line) = &site.launch {
        write!(f, " at {}", shown(line))?;
    }
    writeln!(f)
}

pub(super) fn verb(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Read => "reads",
        AccessMode::Write => "writes",
        AccessMode::ReadWrite => "reads and writes",
        AccessMode::Atomic => "updates atomically",
    }
}

impl Display for BufferNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} \"{}\", {}",
            self.id,
            shown(&self.name),
            shown(&self.kind)
        )?;
        if let Some(tag) = &self.tag {
            write!(f, ", tag \"{}\"", shown(tag))?;
        }
        write!(f, ", at {}", self.range)
    }
}
