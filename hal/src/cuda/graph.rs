//! The shape of a driver's graph: its nodes and its edges.

use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::sys;
use streamweir_trace::EdgeKind;

use super::handle::Raw;
use super::library::Library;
use crate::driver::{DriverResult, GraphEdge, NodeHandle};

/// The nodes, in the driver's order.
///
/// # Safety
/// The graph is live, and no other thread changes it meanwhile.
pub(super) unsafe fn nodes(
    library: &Library,
    graph: sys::CUgraph,
) -> DriverResult<Vec<NodeHandle>> {
    let mut count = 0;
    // SAFETY: without an array the driver gives the number alone.
    unsafe { library.cuGraphGetNodes(graph, ptr::null_mut(), &raw mut count) }?;
    let mut nodes = vec![ptr::null_mut(); count];
    if count > 0 {
        // SAFETY: the array has room for `count` nodes.
        unsafe { library.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }?;
    }
    // Fewer than there is room for are padded with nulls.
    nodes.truncate(count);
    Ok(nodes.into_iter().map(NodeHandle::of).collect())
}

/// The edges, with what each promises.
///
/// # Safety
/// As for [`nodes`].
pub(super) unsafe fn edges(library: &Library, graph: sys::CUgraph) -> DriverResult<Vec<GraphEdge>> {
    let mut count = 0;
    // SAFETY: without arrays the driver gives the number alone.
    unsafe {
        library.cuGraphGetEdges(
            graph,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            &raw mut count,
        )
    }?;
    let mut from = vec![ptr::null_mut(); count];
    let mut to = vec![ptr::null_mut(); count];
    let mut data = vec![no_data(); count];
    if count > 0 {
        // SAFETY: each array has room for `count` entries.
        unsafe {
            library.cuGraphGetEdges(
                graph,
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                data.as_mut_ptr(),
                &raw mut count,
            )
        }?;
    }
    Ok(from
        .into_iter()
        .zip(to)
        .zip(data)
        .take(count)
        .map(|((from, to), data)| GraphEdge {
            from: NodeHandle::of(from),
            to: NodeHandle::of(to),
            kind: kind(&data),
        })
        .collect())
}

/// Makes an instantiated graph do what `graph` does, or says what stands against it.
///
/// # Safety
/// Both are live, and nobody else uses `exec` meanwhile.
pub(super) unsafe fn update(
    library: &Library,
    exec: sys::CUgraphExec,
    graph: sys::CUgraph,
) -> DriverResult<()> {
    let mut info = MaybeUninit::<sys::CUgraphExecUpdateResultInfo>::zeroed();
    // SAFETY: by the caller; the driver fills the struct.
    let updated = unsafe { library.cuGraphExecUpdate(exec, graph, info.as_mut_ptr()) };
    updated.map_err(|error| {
        // SAFETY: zeroed, then filled by the driver; the result is read as the number
        // that it is in C, for a driver may know more of them.
        let why = unsafe { (&raw const (*info.as_ptr()).result).cast::<u32>().read() };
        error.with(refusal(why))
    })
}

/// Why an update is refused, by the driver's number.
fn refusal(why: u32) -> String {
    let known = match why {
        2 => "nodes or edges are others",
        3 => "a node is of another type",
        4 => "a kernel node has another function",
        5 => "parameters changed in a way that an update cannot",
        6 => "a node cannot be updated",
        7 => "a kernel's function changed in a way that an update cannot",
        8 => "attributes of a kernel node are others",
        other => return format!("update result {other}"),
    };
    known.to_owned()
}

fn no_data() -> sys::CUgraphEdgeData {
    sys::CUgraphEdgeData {
        from_port: 0,
        to_port: 0,
        type_: 0,
        reserved: [0; 5],
    }
}

/// What an edge promises. Port 0 of every node is its end; any other port of a
/// kernel, and an edge of any other type, known or not, lets the second node
/// start earlier and is taken for the weaker promise.
fn kind(data: &sys::CUgraphEdgeData) -> EdgeKind {
    const DEFAULT: u8 = 0;
    if data.from_port == 0 && data.type_ == DEFAULT {
        EdgeKind::Full
    } else {
        EdgeKind::Programmatic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_that_leaves_before_the_end_is_not_a_full_one() {
        let programmatic =
            sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u32 as u8;
        let edge = |from_port, type_| {
            kind(&sys::CUgraphEdgeData {
                from_port,
                type_,
                ..no_data()
            })
        };
        assert_eq!(edge(0, 0), EdgeKind::Full);
        assert_eq!(edge(1, programmatic), EdgeKind::Programmatic);
        assert_eq!(edge(0, programmatic), EdgeKind::Programmatic);
        // The launch-order port, and a type that is not known yet.
        assert_eq!(edge(2, 0), EdgeKind::Programmatic);
        assert_eq!(edge(0, 9), EdgeKind::Programmatic);
    }
}
