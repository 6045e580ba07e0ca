//! Kernels that start early: which edges a capture makes programmatic, and that
//! the order of the results stays what it was.

use streamweir_trace::EdgeKind::{self, Full, Programmatic};

use super::rig::{BYTES, Check, Rig, equal};
use crate::driver::{FunctionHandle, GraphHandle, Start, StreamHandle};

const ELEMENTS: u32 = (BYTES / 4) as u32;

impl Rig<'_> {
    fn early(&self, stream: StreamHandle, function: FunctionHandle, data: u64) -> Check {
        Ok(self.add_one_at(stream, function, Start::Early, data, ELEMENTS)?)
    }

    fn in_order(&self, stream: StreamHandle, function: FunctionHandle, data: u64) -> Check {
        Ok(self.add_one_at(stream, function, Start::InOrder, data, ELEMENTS)?)
    }

    /// The kinds of the edges that [`edges`](Self::edges) lists.
    fn has_edges(&self, graph: GraphHandle, expected: &[(usize, usize, EdgeKind)]) -> Check {
        equal("the edges", expected.to_vec(), self.kinds_of_edges(graph)?)
    }

    fn counts(&self, data: u64, value: u8) -> Check {
        let mut bytes = [0; BYTES as usize];
        // SAFETY: live memory, and the work on it was waited for.
        unsafe { self.driver.copy_to_host(&mut bytes, data) }?;
        equal(
            "every element",
            [value, 0, 0, 0].repeat(BYTES as usize / 4),
            bytes.to_vec(),
        )
    }
}

pub(super) fn edge_from_a_kernel_is_programmatic(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 0)?;
    rig.in_order(stream, function, data)?;
    rig.early(stream, function, data)?;
    rig.early(stream, function, data)?;
    rig.in_order(stream, function, data)?;
    let graph = rig.end(stream)?;
    rig.has_edges(
        graph,
        &[
            (0, 1, Full),
            (1, 2, Programmatic),
            (2, 3, Programmatic),
            (3, 4, Full),
        ],
    )?;
    rig.replay(graph, stream)?;
    rig.counts(data, 4)
}

pub(super) fn edge_from_a_fill_is_full(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 0)?;
    rig.early(stream, function, data)?;
    let graph = rig.end(stream)?;
    rig.has_edges(graph, &[(0, 1, Full)])?;
    rig.replay(graph, stream)?;
    rig.counts(data, 1)
}

/// What is waited for of another stream counts like what is before on its own.
pub(super) fn edges_from_joined_kernels_are_programmatic(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    let (other, function) = (rig.memory()?, rig.function()?);
    rig.begin(main)?;
    rig.fill(main, data, 0)?;
    rig.order(main, side)?;
    rig.in_order(main, function, data)?;
    rig.fill(side, other, 0)?;
    rig.in_order(side, function, other)?;
    rig.order(side, main)?;
    rig.early(main, function, data)?;
    let graph = rig.end(main)?;
    rig.has_edges(
        graph,
        &[
            (0, 1, Full),
            (0, 2, Full),
            (1, 4, Programmatic),
            (2, 3, Full),
            (3, 4, Programmatic),
        ],
    )?;
    rig.replay(graph, main)?;
    rig.counts(data, 2)?;
    rig.counts(other, 1)
}

/// A fill that is waited for keeps its full edge beside the programmatic one.
pub(super) fn edge_from_a_joined_fill_is_full(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    let (other, function) = (rig.memory()?, rig.function()?);
    rig.begin(main)?;
    rig.fill(main, data, 0)?;
    rig.order(main, side)?;
    rig.in_order(main, function, data)?;
    rig.fill(side, other, 7)?;
    rig.order(side, main)?;
    rig.early(main, function, data)?;
    let graph = rig.end(main)?;
    rig.has_edges(
        graph,
        &[
            (0, 1, Full),
            (0, 2, Full),
            (1, 3, Programmatic),
            (2, 3, Full),
        ],
    )?;
    rig.replay(graph, main)?;
    rig.counts(data, 2)?;
    rig.holds(other, 7)
}

pub(super) fn first_node_may_start_early(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.fill(stream, data, 0)?;
    rig.begin(stream)?;
    rig.early(stream, function, data)?;
    let graph = rig.end(stream)?;
    rig.has_edges(graph, &[])?;
    rig.replay(graph, stream)?;
    rig.counts(data, 1)
}

pub(super) fn outside_a_capture_results_are_in_order(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.fill(stream, data, 0)?;
    for _ in 0..5 {
        rig.in_order(stream, function, data)?;
        rig.early(stream, function, data)?;
    }
    rig.synchronize(stream)?;
    rig.counts(data, 10)
}
