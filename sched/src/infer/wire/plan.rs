//! What the parent asks of a child.

use std::fmt::Write as _;

use streamweir_trace::NodeId;

/// What a child is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) call: usize,
    pub(super) skip: Vec<(NodeId, String)>,
}

impl Plan {
    pub(super) fn text(&self) -> String {
        let mut text = format!("call {}\n", self.call);
        for (node, why) in &self.skip {
            _ = writeln!(text, "skip {} {}", node.0, why.replace('\n', " "));
        }
        text
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let call = lines.next()?.strip_prefix("call ")?.parse().ok()?;
        let skip = lines.map(|line| {
            let (node, why) = line.strip_prefix("skip ")?.split_once(' ')?;
            Some((NodeId(node.parse().ok()?), why.to_owned()))
        });
        Some(Self {
            call,
            skip: skip.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let plan = Plan {
            call: 3,
            skip: vec![(NodeId(7), "timed out after 10 s".to_owned())],
        };
        assert_eq!(Plan::parse(&plan.text()), Some(plan));
        assert_eq!(Plan::parse("skip 7"), None);
    }
}
