//! The certificate of a trace, as the verifier writes it.

use streamweir_trace::{BufferId, NodeId, Trace};

use super::about::About;
use super::form::Certificate;
use super::turns::turns;
use super::version::VERSION;
use crate::accesses::Shown;
use crate::context::Context;
use crate::error::VerifyError;

/// The certificate that `trace` has if it is safe. All that it states is true as
/// far as it can be; whether that proves anything is for
/// [`check`](super::check()) to say.
///
/// [`verify`](crate::verify()) hands out the same, and only for a safe verdict.
///
/// # Errors
/// As [`verify`](crate::verify()).
pub fn claim(trace: &Trace) -> Result<Certificate, VerifyError> {
    let shown = Shown::new(trace)?;
    let context = Context::new(&shown)?;
    let not_analysed = context.facts.unanalysed(trace);
    let (turns, _) = turns(&context);
    Ok(new(&context, turns, not_analysed, 0))
}

/// The certificate of a graph that was found safe. None if buffers hand bytes
/// to each other in a circle, which no sequence of turns can state.
pub(crate) fn of_safe(
    context: &Context<'_>,
    not_analysed: Vec<NodeId>,
    comparisons: u64,
) -> Option<Certificate> {
    let (turns, whole) = turns(context);
    whole.then(|| new(context, turns, not_analysed, comparisons))
}

fn new(
    context: &Context<'_>,
    turns: Vec<BufferId>,
    not_analysed: Vec<NodeId>,
    comparisons: u64,
) -> Certificate {
    let order = context.graph.order().iter();
    Certificate {
        version: VERSION,
        about: About::of(context.given),
        comparisons,
        order: order
            .map(|&node| (node, context.reach.place(node).0))
            .collect(),
        freed: context.graph_memory.by_address().to_vec(),
        turns,
        not_analysed,
    }
}
