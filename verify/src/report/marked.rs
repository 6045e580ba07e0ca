//! What pictures mark of a report.

use std::collections::BTreeSet;

use streamweir_trace::NodeId;

use super::model::Report;
use crate::fix::Fix;

/// The orders that are missing, each once, with the rules that want it.
pub(super) fn missing(report: &Report) -> Vec<([NodeId; 2], String)> {
    let mut wanted: Vec<([NodeId; 2], &str)> = report
        .hazards
        .iter()
        .filter_map(|hazard| match hazard.fix {
            Fix::Join { after, before } => Some(([after, before], hazard.rule.code())),
            _ => None,
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| {
            let rules: Vec<&str> = same.iter().map(|(_, rule)| *rule).collect();
            (same[0].0, rules.join(", "))
        })
        .collect()
}

impl Report {
    /// The nodes that hazards name.
    pub(super) fn marked(&self) -> BTreeSet<NodeId> {
        let sites = self.hazards.iter().flat_map(|hazard| {
            let members = hazard.members.iter();
            let members = members.flat_map(|pair| [&pair.first, &pair.second]);
            let own = [&hazard.first].into_iter().chain(&hazard.second);
            own.chain(members)
        });
        sites.filter_map(|site| site.node).collect()
    }
}
