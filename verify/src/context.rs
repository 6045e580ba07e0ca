//! A trace as the verifier has read it: its graph and the order of it, its
//! accesses, and where they lie.

use streamweir_trace::{NodeId, Trace};

use crate::accesses::{Accesses, AddressMap, Shown, Touch};
use crate::error::VerifyError;
use crate::facts::Facts;
use crate::graph::Graph;
use crate::graph_memory::GraphMemory;
use crate::reach::Reach;

/// What every rule, the certificate and every report read.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The trace as it was given, which the certificate is about.
    pub(crate) given: &'a Trace,
    /// The trace with all that its nodes show, which the verdict is about.
    pub(crate) trace: &'a Trace,
    /// How many of its buffers have a name or an allocation node.
    pub(crate) named: usize,
    pub(crate) facts: Facts,
    pub(crate) graph: Graph,
    pub(crate) reach: Reach,
    pub(crate) accesses: Accesses<'a>,
    pub(crate) map: AddressMap,
    pub(crate) graph_memory: GraphMemory,
}

impl<'a> Context<'a> {
    pub(crate) fn new(shown: &'a Shown<'a>) -> Result<Self, VerifyError> {
        let trace = shown.trace();
        let graph =
            Graph::new(trace.nodes.len(), &trace.edges).map_err(|nodes| VerifyError::Cycle {
                nodes: nodes
                    .into_iter()
                    .map(|node| (node, trace.node(node).name.clone()))
                    .collect(),
            })?;
        let facts = Facts::new(trace);
        let reach = Reach::new(trace, &graph, &facts)?;
        let mut accesses = Accesses::new(trace, &graph, &reach);
        let map = AddressMap::new(trace, &mut accesses);
        Ok(Self {
            given: shown.given(),
            named: shown.named(),
            trace,
            reach,
            accesses,
            map,
            graph_memory: GraphMemory::new(shown.given(), &graph, &facts),
            facts,
            graph,
        })
    }

    /// Whether `first` stands before `then` in the order of the graph, which is
    /// one of those in which it may run.
    pub(crate) fn stands_before(&self, first: NodeId, then: NodeId) -> bool {
        self.graph.position(first) < self.graph.position(then)
    }

    /// The two accesses in the order of the graph, and whether that order is
    /// forced.
    pub(crate) fn ordered<'t>(&self, a: &'t Touch, b: &'t Touch) -> (&'t Touch, &'t Touch, bool) {
        let (first, then) = match self.stands_before(b.node, a.node) {
            true => (b, a),
            false => (a, b),
        };
        let forced = self.reach.ends_before(first.node, then.node, then.phase);
        (first, then, forced)
    }
}
