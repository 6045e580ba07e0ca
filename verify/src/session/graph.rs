//! What a launch of a graph touches, from the graph's own trace.

use std::collections::HashMap;

use streamweir_trace::session::{Session, Use};
use streamweir_trace::{AccessMode, BufferId, ByteRange, GraphId, RangeSet, Trace};

use crate::accesses::Shown;
use crate::error::VerifyError;
use crate::facts::Facts;
use crate::rules::r10_not_analysed;

/// Adds an executable graph to `session`: the bytes that the nodes of `trace`
/// read and write, of whatever memory, be it declared or shown by operands, with
/// the buffers that hold them. A buffer
/// of the same name and addresses that the session has already is used again.
/// Each instantiation of a capture is added once.
///
/// What the graph's own verdict takes for granted, or does not speak about,
/// stands beside the session's verdict too, and so do accesses that are only
/// possible: they are not counted.
///
/// # Errors
/// When the tables of the trace do not fit together.
pub fn add_graph(session: &mut Session, trace: &Trace) -> Result<GraphId, VerifyError> {
    let shown = Shown::new(trace)?;
    let trace = shown.trace();
    let mut known: HashMap<(String, ByteRange), BufferId> = session
        .buffers
        .iter()
        .enumerate()
        .map(|(at, buffer)| ((buffer.name.clone(), buffer.range), BufferId::at(at)))
        .collect();
    let mut buffer_at = |session: &mut Session, name: String, range: ByteRange| {
        *known
            .entry((name, range))
            .or_insert_with_key(|(name, range)| session.add_buffer(name.clone(), *range))
    };
    let mut ranges: HashMap<(BufferId, AccessMode), Vec<ByteRange>> = HashMap::new();
    for access in trace.accesses.iter().filter(|a| !a.bytes.is_empty()) {
        let buffer = trace.buffer(access.buffer);
        let id = buffer_at(session, buffer.name.clone(), buffer.range);
        ranges
            .entry((id, access.mode))
            .or_default()
            .push(access.bytes);
    }
    for access in trace.unknown.iter().filter(|a| !a.range.is_empty()) {
        let name = format!("unknown memory of \"{}\"", trace.name);
        let id = buffer_at(session, name, access.range);
        let all = ByteRange::new(0, access.range.len());
        ranges.entry((id, access.mode)).or_default().push(all);
    }
    let mut uses: Vec<Use> = ranges
        .into_iter()
        .flat_map(|((buffer, mode), ranges)| {
            let merged: RangeSet = ranges.into_iter().collect();
            let merged = merged.as_slice().to_vec();
            let all = merged.into_iter();
            all.map(move |bytes| Use::new(buffer, bytes, mode))
        })
        .collect();
    uses.sort_unstable();
    let id = session.add_graph(trace.name.clone(), uses);
    let graph = &mut session.graphs[id.index()];
    graph.assumptions = trace.taken_for_granted();
    if !trace.possible.is_empty() {
        graph.assumptions.push(format!(
            "none of its {} possible accesses happens",
            trace.possible.len()
        ));
    }
    let unanalysed = Facts::new(trace).unanalysed(trace);
    graph.not_analysed = r10_not_analysed::lines(trace, &unanalysed);
    Ok(id)
}
