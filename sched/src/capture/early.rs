//! Early starts: which launches are programmatic, what that makes of the edges, and
//! what a proof then rests on.
//!
//! A kernel that declares to wait for what it follows (`#[waits]`) may be there
//! before that has ended. Nothing else of a capture knows of it: a recorded launch
//! carries its [`Start`], and the trace is told here what its edges order.

use std::collections::BTreeSet;

use streamweir_hal::driver::{Backend, DeviceInfo, Start};
use streamweir_trace::{BlockSync, EdgeKind, Node, NodeKind, PdlWait};

use super::recording::{Recording, What};
use crate::kernel::Signature;

/// The compute capability from which on there is programmatic dependent launch.
const SINCE: (u32, u32) = (9, 0);

fn is_known_to(backend: Backend, capability: (u32, u32)) -> bool {
    backend == Backend::Sim || capability >= SINCE
}

/// Whether kernels of a capture on a device may start early at all.
///
/// Only in a capture of our own. There every edge is read back, and what a
/// library launches without a wait is seen; of an eager run nothing is. In an
/// engine's capture others read our nodes back, a second attachment or an audit,
/// and a graph does not tell them that a kernel waits.
pub(super) fn is_possible(wanted: bool, device: &DeviceInfo) -> bool {
    wanted && is_known_to(device.backend, device.capability)
}

/// When the next launch on a stream may start: together, for a kernel that declares to
/// need it; early, where that is possible and the kernel declares to wait.
///
/// A kernel whose blocks spin has nobody beside it (R14), so it does not start
/// early, and nothing does that is recorded later.
pub(super) fn start(possible: bool, recording: &mut Recording, kernel: &Signature) -> Start {
    recording.spins |= kernel.sync != BlockSync::Independent;
    if kernel.sync == BlockSync::Cooperative {
        return Start::Together;
    }
    match possible && kernel.pdl != PdlWait::None && !recording.spins {
        true => Start::Early,
        false => Start::InOrder,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programmatic_launch_came_with_compute_capability_9() {
        assert!(!is_known_to(Backend::Cuda, (8, 9)));
        assert!(is_known_to(Backend::Cuda, (9, 0)));
        assert!(is_known_to(Backend::Cuda, (12, 0)));
        assert!(is_known_to(Backend::Sim, (0, 0)));
    }
}
