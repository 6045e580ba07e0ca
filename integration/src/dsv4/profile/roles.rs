//! Which kernels of a step do the same, and how long one takes by itself.
//!
//! The same place in layers of one kind is a role. Its nodes are timed in one
//! chain, each over the weights and caches of its own layer: one of them alone
//! would find its weights in the cache. What a library enqueues in one call stays
//! together, for its parts rely on each other: cuBLASLt has kernels that never end
//! when the counter which a fill before them clears is not clear.

use std::collections::BTreeMap;

use streamweir::Graph;
use streamweir::trace::{Node, NodeId, NodeKind, Trace};

use crate::dsv4::config::Config;
use crate::dsv4::error::Error;
use crate::dsv4::timer::Timer;

/// Replays of a chain at the most.
const REPLAYS: usize = 5;

/// One place in the layers of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Where: `c4/kv`, `head`.
    pub place: String,
    /// The kernel.
    pub kernel: String,
    /// The how-manieth call of the kernel in its place, from 0.
    pub call: usize,
    /// Nodes of the step in this role.
    pub nodes: usize,
    /// Microseconds of one by itself, the step to the next node included; where a
    /// call of a library has several, the mean of these.
    pub us: f64,
    /// Microseconds that the whole step is shorter when all of these do nothing,
    /// where that was measured.
    pub saves: Option<f64>,
}

/// The roles of a graph, and which node has which.
pub(super) struct Roles {
    pub(super) roles: Vec<Role>,
    /// The nodes of each, whole calls one after the other.
    pub(super) nodes: Vec<Vec<NodeId>>,
    of_node: Vec<Option<usize>>,
}

impl Roles {
    /// What an edge adds where all nodes in one chain take `serial`: its share of
    /// what they do not take by themselves.
    pub(super) fn edge(&self, serial: f64) -> f64 {
        let nodes: usize = self.roles.iter().map(|role| role.nodes).sum();
        let alone: f64 = (self.roles.iter())
            .map(|role| role.us * role.nodes as f64)
            .sum();
        ((serial - alone) / nodes.max(1) as f64).max(0.0)
    }

    /// A role for each node, with its time.
    #[cfg(test)]
    pub(super) fn of_times(us: &[f64]) -> Self {
        let role = |&us: &f64| Role {
            place: String::new(),
            kernel: String::new(),
            call: 0,
            nodes: 1,
            us,
            saves: None,
        };
        Self {
            roles: us.iter().map(role).collect(),
            nodes: (0..us.len()).map(|node| vec![NodeId::at(node)]).collect(),
            of_node: (0..us.len()).map(Some).collect(),
        }
    }

    /// Microseconds of a node; none for what is no kernel.
    pub(super) fn us(&self, node: NodeId) -> f64 {
        self.of_node[node.index()].map_or(0.0, |role| self.roles[role].us)
    }
}

/// Times every role of a graph by itself.
pub(super) fn measure(
    graph: &Graph,
    config: &Config,
    timer: &Timer,
    replays: usize,
) -> Result<Roles, Error> {
    let replays = replays.min(REPLAYS);
    let trace = graph.trace();
    let mut timed = Vec::new();
    for ((place, kernel, call), nodes) in group(trace, config) {
        // SAFETY: the kernels stay in bounds whatever they read, for ids and
        // slots that a pool does not have are masked or replaced; the products of
        // the library read and write numbers only. Each node ends, for none waits for
        // another and a call of the library stays together. Nothing relies on the caches'
        // content afterwards: every profile begins with a reset.
        let us = unsafe { graph.time_chain(&timer.stream, &nodes, replays) }?;
        let role = Role {
            place,
            kernel,
            call,
            nodes: nodes.len(),
            us,
            saves: None,
        };
        timed.push((role, nodes));
    }
    let share = |role: &Role| role.us * role.nodes as f64;
    timed.sort_by(|(a, _), (b, _)| share(b).total_cmp(&share(a)));
    let mut of_node = vec![None; trace.nodes.len()];
    for (role, (_, nodes)) in timed.iter().enumerate() {
        for node in nodes {
            of_node[node.index()] = Some(role);
        }
    }
    let (roles, nodes) = timed.into_iter().unzip();
    Ok(Roles {
        roles,
        nodes,
        of_node,
    })
}

/// Place, kernel, and the how-manieth call of it in its layer.
type Key = (String, String, usize);

fn group(trace: &Trace, config: &Config) -> BTreeMap<Key, Vec<NodeId>> {
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut groups: BTreeMap<Key, Vec<NodeId>> = BTreeMap::new();
    for call in calls(trace) {
        let kernel = |&id: &NodeId| matches!(trace.node(id).kind, NodeKind::Kernel(_));
        // Copies and fills of our own are no kernels' part.
        if !call.iter().any(kernel) {
            continue;
        }
        let name = &trace.node(call[0]).name;
        let scope = trace.scope_of(call[0]).unwrap_or_default().to_owned();
        let nth = seen.entry((scope.clone(), name.clone())).or_default();
        let key = (place(&scope, config), name.clone(), *nth);
        *nth += 1;
        groups.entry(key).or_default().extend(call);
    }
    groups
}

/// The nodes of each call, which are next to each other in the recording.
pub(super) fn calls(trace: &Trace) -> impl Iterator<Item = Vec<NodeId>> + '_ {
    let mut next = 0;
    trace.nodes.chunk_by(same_call).map(move |call| {
        let first = next;
        next += call.len();
        (first..next).map(NodeId::at).collect()
    })
}

/// Whether two nodes that are next to each other in the recording come from one
/// call: no line of a layer launches twice in a row.
fn same_call(one: &Node, other: &Node) -> bool {
    one.name == other.name && one.scope == other.scope && one.launch == other.launch
}

/// `layer 3/layer 3/kv` is a place of all layers of the kind of layer 3.
fn place(scope: &str, config: &Config) -> String {
    let mut kind = None;
    let mut rest = Vec::new();
    for part in scope.split('/') {
        match part.strip_prefix("layer ").map(str::parse) {
            Some(Ok(layer)) => kind = Some(config.kind(layer).word()),
            _ => rest.push(part),
        }
    }
    let words: Vec<&str> = kind.into_iter().chain(rest).collect();
    words.join("/")
}

#[cfg(test)]
mod tests {
    use streamweir::trace::{FillNode, SourceLine};

    use super::*;

    /// What a library enqueues in one call is timed as one, with the fill that its
    /// kernels rely on; the next call is another, and a fill of ours is none.
    #[test]
    fn a_call_stays_together() {
        let mut trace = Trace::new("test");
        let scope = trace.add_scope("layer 2");
        let mut add = |kind: NodeKind, name: &str, line| {
            trace.add_node(Node {
                scope: Some(scope),
                launch: Some(SourceLine {
                    file: "layer.rs".to_owned(),
                    line,
                }),
                ..Node::new(kind, name)
            })
        };
        let fill = || NodeKind::Memset(FillNode::linear(0x100, 4, 0));
        for (kind, name, line) in [
            (fill(), "gemm", 1),
            (NodeKind::kernel(), "gemm", 1),
            (NodeKind::kernel(), "gemm", 1),
            (NodeKind::kernel(), "gemm", 2),
            (fill(), "fill", 3),
            (NodeKind::kernel(), "mix", 4),
        ] {
            add(kind, name, line);
        }
        let groups = group(&trace, &Config::FLASH);
        let ids = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        let key = |name: &str, nth| ("c4".to_owned(), name.to_owned(), nth);
        let expected = [
            (key("gemm", 0), ids(&[0, 1, 2])),
            (key("gemm", 1), ids(&[3])),
            (key("mix", 0), ids(&[5])),
        ];
        assert_eq!(groups.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_place_is_the_same_in_all_layers_of_a_kind() {
        let config = Config::FLASH;
        assert_eq!(place("layer 4/layer 4/kv", &config), "c4/kv");
        assert_eq!(place("layer 40", &config), "c4");
        assert_eq!(place("layer 41/compressor", &config), "c128/compressor");
        assert_eq!(place("head", &config), "head");
        assert_eq!(place("layer x", &config), "layer x");
    }
}
