//! What else would mend a hazard, where a join gives an overlap up or the host let
//! go of a buffer too early.

use streamweir_trace::{AccessMode, BufferId, BufferKind, NodeId, StreamId, clipped};

use crate::context::Context;
use crate::findings::{Finding, Group};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::site::{buffer_label, node_title};

/// The fix in words. Where the host let go of a buffer while a node could still use
/// it, that comes first: a join is only what is left to do then.
pub(super) fn help(context: &Context<'_>, lead: &Finding) -> String {
    let fix = lead.fix.describe(context.trace);
    match let_go_early(context, lead) {
        Some((buffer, user)) => format!(
            "keep {} until a join covers {}: the host let go of it before that; or {fix}",
            buffer_label(context.trace, buffer),
            node(context, user),
        ),
        None => fix,
    }
}

/// The buffer of two that share bytes which was freed while the first node could
/// still use it, and that node.
fn let_go_early(context: &Context<'_>, lead: &Finding) -> Option<(BufferId, NodeId)> {
    let [Some(a), Some(b)] = lead.buffers else {
        return None;
    };
    let Fix::Join { .. } = lead.fix else {
        return None;
    };
    let nodes = [
        (a, lead.first?, lead.second?),
        (b, lead.second?, lead.first?),
    ];
    nodes.into_iter().find_map(
        |(buffer, own, other)| match context.trace.buffer(buffer).kind {
            BufferKind::Scratch {
                freed_before: Some(freed),
                ..
            } if freed <= other => Some((buffer, own)),
            _ => None,
        },
    )
}

/// What keeps the overlap that a join would give up.
pub(super) fn otherwise(context: &Context<'_>, group: &Group) -> Vec<String> {
    let trace = context.trace;
    let lead = &group.lead;
    let Fix::Join { after, before } = lead.fix else {
        return Vec::new();
    };
    let stream = |node: NodeId| trace.node(node).stream;
    let of_bytes = matches!(lead.rule, Rule::UnorderedConflict | Rule::SharedBytes);
    if !of_bytes || stream(after) == stream(before) {
        return Vec::new();
    }
    match lead.buffers {
        [Some(a), Some(b)] => {
            let moved = [b, a].into_iter().find(|&id| is_scratch(context, id));
            let mut all: Vec<String> = moved
                .map(|id| format!("give {} bytes of its own", buffer_label(trace, id)))
                .into_iter()
                .collect();
            for id in [a, b] {
                if let Some(stream) = only_user(context, id)
                    && trace.buffer(id).stream() != Some(stream)
                    && is_scratch(context, id)
                {
                    all.push(format!(
                        "take {} from stream \"{}\", which alone uses it",
                        buffer_label(trace, id),
                        clipped(&trace.stream(stream).name)
                    ));
                }
            }
            all
        }
        // What reads the bytes wants what the other one has written, so only the
        // later writer of a conflict can do without them.
        [Some(a), None]
            if lead.rule == Rule::UnorderedConflict
                && lead.second == Some(before)
                && lead.modes[1] == Some(AccessMode::Write) =>
        {
            vec![format!(
                "let {} write bytes of its own instead of {}",
                node(context, before),
                buffer_label(trace, a)
            )]
        }
        _ => Vec::new(),
    }
}

fn is_scratch(context: &Context<'_>, id: BufferId) -> bool {
    matches!(context.trace.buffer(id).kind, BufferKind::Scratch { .. })
}

/// How many accesses of a buffer are gone through.
const LOOKED_AT: usize = 4096;

/// The one stream whose nodes use a buffer.
fn only_user(context: &Context<'_>, id: BufferId) -> Option<StreamId> {
    let mut users = context.accesses.of(id).take(LOOKED_AT);
    let first = context.facts.stream(users.next()?.node)?;
    users
        .all(|touch| context.facts.stream(touch.node) == Some(first))
        .then_some(first)
}

fn node(context: &Context<'_>, id: NodeId) -> String {
    format!("{id} `{}`", node_title(context.trace, id))
}
