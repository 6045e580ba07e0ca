//! Early starts: which launches are programmatic, what that makes of the edges, and
//! what a proof then rests on.
//!
//! A kernel that declares to wait for what it follows (`#[waits]`) may be there
//! before that has ended. Nothing else of a capture knows of it: a recorded launch
//! carries its [`Start`], and the trace is told here what its edges order.

use std::collections::BTreeSet;

use streamweir_trace::{BlockSync, EdgeKind, Node, NodeKind, PdlWait, StreamId};

use super::record::{Recording, What};
use super::session::{Core, State};
use crate::driver::{DeviceInfo, Start};
use crate::kernel::Signature;

/// The compute capability from which on there is programmatic dependent launch.
const SINCE: (u32, u32) = (9, 0);

fn is_known_to(device: &DeviceInfo) -> bool {
    device.backend == "sim" || device.capability >= SINCE
}

impl Core {
    /// When the next launch on a stream may start: early, where the kernel declares
    /// to wait and the device has programmatic launch. A kernel whose blocks spin
    /// has nobody beside it, neither before nor after (R14).
    pub(super) fn start_of(&self, state: &State, stream: StreamId, kernel: &Signature) -> Start {
        let device = self.device.reclaim.driver().info();
        if !self.programmatic || kernel.pdl == PdlWait::None || !is_known_to(device) {
            return Start::InOrder;
        }
        let follows = &state.strands[stream.index()].frontier;
        let behind_spinning = follows.iter().any(|&command| {
            let what = &state.recording.commands[command as usize].what;
            matches!(what, What::Kernel { info, .. } if spins(&info.signature))
        });
        match spins(kernel) || behind_spinning {
            true => Start::InOrder,
            false => Start::Early,
        }
    }
}

fn spins(kernel: &Signature) -> bool {
    kernel.sync != BlockSync::Independent
}

/// What orders two nodes: only between kernels does an early start make something
/// else of an edge.
pub(super) fn edge_kind(from: &Node, to: &Node) -> EdgeKind {
    match (&from.kind, &to.kind, to.pdl) {
        (NodeKind::Kernel(_), NodeKind::Kernel(_), PdlWait::OnAllPaths) => EdgeKind::Programmatic,
        _ => EdgeKind::Full,
    }
}

/// That the kernels which start early wait is their declaration's word.
pub(super) fn assumption(recording: &Recording) -> Option<String> {
    let early = recording
        .commands
        .iter()
        .filter_map(|command| match &command.what {
            What::Kernel { info, start, .. } if *start == Start::Early => {
                Some(info.signature.symbol)
            }
            _ => None,
        });
    let names: BTreeSet<_> = early.map(|symbol| format!("`{symbol}`")).collect();
    (!names.is_empty()).then(|| {
        format!(
            "these kernels, which start before what they follow has ended, wait for it on all \
             paths before they touch memory, as they declare: {}",
            Vec::from_iter(names).join(", ")
        )
    })
}
