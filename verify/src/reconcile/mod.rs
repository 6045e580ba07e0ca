//! Whether the graph that the driver holds is the one that was recorded.
//!
//! # What is guaranteed
//! Every recorded node is in the driver's graph once, of the same kind, with
//! the same kernel, launch shape and parameters, as far as the trace says what
//! they are; nothing else is there; and every recorded edge is implied by the
//! driver's edges. More order than was recorded is no difference.
//!
//! # Why the verdict is taken on the driver's edges
//! What replays is the driver's graph. [`verify_driver`] keeps what only the
//! recorder knows (buffers, accesses, scopes) and takes all order from the
//! driver, so a driver that drops an edge is caught twice: as a difference, and
//! by whatever rule the missing edge breaks.
//!
//! The read-back side is a trace of nodes and edges. Its nodes are matched to
//! recorded ones by whoever read it back, from what the driver told while
//! capturing, never by enumeration order.

mod difference;
mod node;

use streamweir_trace::{Edge, EdgeKind, NodeId, Trace};

pub use difference::{Difference, Mismatch};

use crate::accesses::Shown;
use crate::context::Context;
use crate::error::VerifyError;
use crate::graph::Graph;
use crate::options::Options;
use crate::report::{self, Report, Subject};
use crate::rules::{self, reconciliation};
use crate::site::Site;

/// Holds a read-back graph against the recorded one.
///
/// `matching[i]` is the recorded node that node `i` of `read_back` is, or
/// `None` when nobody recorded it.
///
/// # Errors
/// When one of the traces is malformed, when the driver's edges form a cycle,
/// or when `matching` does not fit the traces. A difference is no error.
pub fn reconcile(
    declared: &Trace,
    read_back: &Trace,
    matching: &[Option<NodeId>],
) -> Result<Vec<Mismatch>, VerifyError> {
    let merged = merge(declared, read_back, matching)?;
    let shown = Shown::new(&merged.trace)?;
    let context = Context::new(&shown)?;
    Ok(mismatches(declared, read_back, &merged, &context))
}

/// [`verify`](crate::verify()), with the driver's order in place of the
/// recorded one, and each difference between the two graphs as a hazard of
/// [`Rule::Reconciliation`](crate::Rule::Reconciliation).
///
/// # Errors
/// As [`reconcile`].
pub fn verify_driver(
    declared: &Trace,
    read_back: &Trace,
    matching: &[Option<NodeId>],
) -> Result<Report, VerifyError> {
    verify_driver_with(declared, read_back, matching, &Options::default())
}

/// [`verify_driver`] with options. The certificate of a safe report is about
/// [`driver_trace`], the recorded trace with the driver's edges.
///
/// # Errors
/// As [`reconcile`].
pub fn verify_driver_with(
    declared: &Trace,
    read_back: &Trace,
    matching: &[Option<NodeId>],
    options: &Options,
) -> Result<Report, VerifyError> {
    let merged = merge(declared, read_back, matching)?;
    let shown = Shown::new(&merged.trace)?;
    let context = Context::new(&shown)?;
    let findings = rules::run(&context, options.limit)?;
    for (number, mismatch) in (0..).zip(mismatches(declared, read_back, &merged, &context)) {
        let nodes = [mismatch.site.node, mismatch.other_node()];
        let differs = mismatch.difference.to_string();
        findings.push(reconciliation::finding(number, nodes, differs));
    }
    Ok(report::assemble(
        &context,
        findings,
        options,
        Subject::Capture,
    ))
}

/// The recorded trace with the driver's edges: what [`verify_driver`] decides
/// on, and what its certificate is about. Nodes that only the driver has stand
/// at the end, not analysed.
///
/// # Errors
/// When one of the traces is malformed or `matching` does not fit them.
pub fn driver_trace(
    declared: &Trace,
    read_back: &Trace,
    matching: &[Option<NodeId>],
) -> Result<Trace, VerifyError> {
    Ok(merge(declared, read_back, matching)?.trace)
}

struct Merged {
    trace: Trace,
    /// The node of `trace` that each read-back node is.
    node_of: Vec<NodeId>,
    /// The read-back nodes of each recorded node.
    found: Vec<Vec<NodeId>>,
}

fn merge(
    declared: &Trace,
    read_back: &Trace,
    matching: &[Option<NodeId>],
) -> Result<Merged, VerifyError> {
    declared.check()?;
    read_back.check()?;
    if matching.len() != read_back.nodes.len() {
        return Err(VerifyError::Matching {
            found: format!("{} nodes", matching.len()),
            expected: format!("{} read-back nodes", read_back.nodes.len()),
        });
    }
    let mut trace = declared.clone();
    let mut found = vec![Vec::new(); declared.nodes.len()];
    let mut node_of = Vec::with_capacity(matching.len());
    for (at, matched) in matching.iter().enumerate() {
        node_of.push(match *matched {
            Some(node) => {
                let Some(found) = found.get_mut(node.index()) else {
                    return Err(VerifyError::Matching {
                        found: format!("node {node}"),
                        expected: format!("{} declared nodes", declared.nodes.len()),
                    });
                };
                found.push(NodeId::at(at));
                node
            }
            None => {
                let mut extra = read_back.nodes[at].clone();
                extra.stream = None;
                extra.scope = None;
                extra.analysed = false;
                if let streamweir_trace::NodeKind::Kernel(kernel) = &mut extra.kind {
                    // Its pointers are into buffers of the other trace.
                    for param in &mut kernel.params {
                        param.pointer = None;
                        param.fields.clear();
                    }
                }
                trace.add_node(extra)
            }
        });
    }
    trace.edges = read_back
        .edges
        .iter()
        .map(|edge| Edge {
            from: node_of[edge.from.index()],
            to: node_of[edge.to.index()],
            kind: edge.kind,
        })
        // Two nodes matched to one would follow themselves; that they are two
        // is reported.
        .filter(|edge| edge.from != edge.to)
        .collect();
    trace.edges.sort_unstable();
    trace.edges.dedup();
    Ok(Merged {
        trace,
        node_of,
        found,
    })
}

fn mismatches(
    declared: &Trace,
    read_back: &Trace,
    merged: &Merged,
    context: &Context<'_>,
) -> Vec<Mismatch> {
    let mut all = Vec::new();
    for (at, found) in merged.found.iter().enumerate() {
        let node = NodeId::at(at);
        let mut report = |driver_node, difference| {
            all.push(Mismatch {
                site: Site::of(declared, node, None),
                driver_node,
                difference,
            });
        };
        match found[..] {
            [] => report(None, Difference::MissingInDriver),
            [_] => {}
            [first, ..] => report(
                Some(first),
                Difference::MatchedTwice {
                    driver_nodes: found.clone(),
                },
            ),
        }
        for &driver_node in found {
            for difference in
                node::compare(declared, declared.node(node), read_back.node(driver_node))
            {
                report(Some(driver_node), difference);
            }
        }
    }
    for (at, &node) in merged.node_of.iter().enumerate() {
        if node.index() >= declared.nodes.len() {
            all.push(Mismatch {
                site: Site::of(&merged.trace, node, None),
                driver_node: Some(NodeId::at(at)),
                difference: Difference::ExtraInDriver {
                    kind: read_back.nodes[at].kind.word().to_owned(),
                },
            });
        }
    }
    missing_edges(declared, merged, context, &mut all);
    all
}

/// Recorded edges that the driver's edges do not imply. An edge of a node that
/// the driver does not have at all is not reported beside the node.
fn missing_edges(
    declared: &Trace,
    merged: &Merged,
    context: &Context<'_>,
    all: &mut Vec<Mismatch>,
) {
    let present = |node: NodeId| !merged.found[node.index()].is_empty();
    for edge in &declared.edges {
        let implied = match edge.kind {
            EdgeKind::Full => {
                context
                    .reach
                    .ends_before(edge.from, edge.to, streamweir_trace::Phase::BeforeWait)
            }
            // What a programmatic edge promises depends on the kernel; that the
            // driver has it, or something stronger, does not.
            EdgeKind::Programmatic => {
                context
                    .reach
                    .ends_before(edge.from, edge.to, streamweir_trace::Phase::AfterWait)
                    || has_edge(&context.graph, edge)
            }
        };
        if !implied && present(edge.from) && present(edge.to) {
            all.push(Mismatch {
                site: Site::of(declared, edge.from, None),
                driver_node: merged.found[edge.from.index()].first().copied(),
                difference: Difference::MissingEdge {
                    to: Site::of(declared, edge.to, None),
                    kind: edge.kind,
                },
            });
        }
    }
}

fn has_edge(graph: &Graph, edge: &Edge) -> bool {
    graph
        .preds(edge.to)
        .iter()
        .any(|&(from, _)| from == edge.from)
}
