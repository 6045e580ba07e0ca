//! One cause, one hazard: pairs of nodes that one join mends are listed as one,
//! with the other pairs as its members.
//!
//! ```text
//! main ---+-- W a ----------------------------      nine readers in order, one join missing:
//!          \                                        one hazard, n1 `write` and n2 `read`, of
//! side      +-- R a -- R a -- R a -- R a ...        which the other eight are members
//! ```

use streamweir_trace::{NodeId, Phase};

use crate::context::Context;
use crate::findings::Group;
use crate::fix::Fix;

/// A hazard and the pairs of nodes that its fix mends as well.
pub(super) struct Folded {
    pub(super) group: Group,
    pub(super) members: Vec<(NodeId, NodeId)>,
}

impl From<Group> for Folded {
    fn from(group: Group) -> Self {
        Self {
            group,
            members: Vec::new(),
        }
    }
}

/// The nodes of a hazard that a join of just them mends.
fn joined(group: &Group) -> Option<(NodeId, NodeId)> {
    let nodes = (group.lead.first?, group.lead.second?);
    let (after, before) = nodes;
    (group.lead.fix == Fix::Join { after, before }).then_some(nodes)
}

/// Folds hazards of one rule about the same buffers: into that of the earliest
/// later node, then into that of the latest earlier node.
pub(super) fn fold(context: &Context<'_>, groups: Vec<Group>) -> Vec<Folded> {
    let position = |node: NodeId| context.graph.position(node);
    let mut all: Vec<Folded> = groups.into_iter().map(Folded::from).collect();
    all.sort_by_key(|it| joined(&it.group).map(|(_, then)| position(then)));
    all = merge(all, |kept, next| {
        let ((first, lead), (other, then)) = (joined(kept)?, joined(next)?);
        let implied = context.reach.ends_before(lead, then, Phase::BeforeWait);
        Some(first == other && implied)
    });
    all.sort_by_key(|it| joined(&it.group).map(|(first, _)| std::cmp::Reverse(position(first))));
    all = merge(all, |kept, next| {
        let ((lead, then), (first, other)) = (joined(kept)?, joined(next)?);
        let implied = context.reach.ends_before(first, lead, Phase::AfterWait);
        Some(then == other && implied)
    });
    all.sort_by_key(|it| it.group.lead.key());
    all
}

/// Adds each hazard to the first kept one whose fix mends it.
fn merge(all: Vec<Folded>, mended_by: impl Fn(&Group, &Group) -> Option<bool>) -> Vec<Folded> {
    let mut kept: Vec<Folded> = Vec::with_capacity(all.len());
    for next in all {
        let alike = |group: &Group| {
            let lead = &next.group.lead;
            group.lead.rule == lead.rule
                && group.lead.proven == lead.proven
                && group.buffers == next.group.buffers
                && mended_by(group, &next.group) == Some(true)
        };
        match kept.iter_mut().find(|it| alike(&it.group)) {
            Some(into) => {
                into.members.extend(joined(&next.group));
                into.members.extend(next.members);
                into.members.sort_unstable();
            }
            None => kept.push(next),
        }
    }
    kept
}
