//! Where a trace for Chrome puts a node along its axis.

use streamweir_trace::{NodeId, Trace};

use crate::error::VerifyError;
use crate::report::layout::Layout;

/// Microseconds that a node fills where its time is not known: a second, which
/// nobody takes for a kernel's.
const STEP: f64 = 1e6;

/// What the horizontal axis of a trace for Chrome means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Axis<'a> {
    /// Order and no time: every node fills one second.
    #[default]
    Order,
    /// Microseconds that each node takes by itself, in the order of their ids. When
    /// a node starts is not measured: it is drawn as early as the graph allows.
    Measured(&'a [f64]),
}

impl Axis<'_> {
    /// The axis in words, for whoever looks at the picture.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Order => "order, not time: each node fills one second",
            Self::Measured(_) => {
                "the measured time of each node by itself; starts are as early as the graph allows"
            }
        }
    }

    /// How long each node is drawn.
    fn lengths(&self, trace: &Trace) -> Result<Vec<f64>, VerifyError> {
        let nodes = trace.nodes.len();
        match *self {
            Self::Order => Ok(vec![STEP; nodes]),
            Self::Measured(times) if times.len() != nodes => Err(VerifyError::Times {
                found: format!("{} times", times.len()),
                nodes,
            }),
            Self::Measured(times) => match times.iter().find(|time| !(0.0..1e15).contains(*time)) {
                Some(time) => Err(VerifyError::Times {
                    found: format!("a time of {time} µs"),
                    nodes,
                }),
                None => Ok(times.to_vec()),
            },
        }
    }
}

/// The places of all nodes, in microseconds.
pub(super) struct Places {
    pub(super) start: Vec<f64>,
    pub(super) length: Vec<f64>,
    /// Where the last node ends.
    pub(super) end: f64,
}

impl Places {
    /// Every node after the ends of what it follows and of what is left of it in its
    /// lane. A node that ought to wait for another one, and does not, starts no
    /// earlier than that one: what nothing orders is seen side by side, and the
    /// arrow between the two never points backwards, which viewers do not draw.
    pub(super) fn new(
        trace: &Trace,
        layout: &Layout,
        axis: &Axis<'_>,
        missing: &[[NodeId; 2]],
    ) -> Result<Self, VerifyError> {
        let length = axis.lengths(trace)?;
        let nodes = length.len();
        let mut start = vec![0.0_f64; nodes];
        let mut after: Vec<Vec<NodeId>> = vec![Vec::new(); nodes];
        for edge in &trace.edges {
            after[edge.to.index()].push(edge.from);
        }
        let mut beside: Vec<Vec<NodeId>> = vec![Vec::new(); nodes];
        for &[from, to] in missing {
            beside[to.index()].push(from);
        }
        let mut tails: Vec<f64> = vec![0.0; layout.lanes.len()];
        // A missing order points along the order of the graph, as an edge does.
        for &node in &layout.order {
            let at = node.index();
            let ends = (after[at].iter()).map(|from| start[from.index()] + length[from.index()]);
            let starts = beside[at].iter().map(|from| start[from.index()]);
            let tail = &mut tails[layout.lane[at] as usize];
            start[at] = ends.chain(starts).fold(*tail, f64::max);
            *tail = start[at] + length[at];
        }
        let end = tails.into_iter().fold(0.0, f64::max);
        Ok(Self { start, length, end })
    }
}
