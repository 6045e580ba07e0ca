//! Calls noted while somebody else captures, and the nodes each has made.
//!
//! Before and after a call the stream's frontier is asked for. What the call
//! made are the nodes that lead to the frontier after it and not to the one
//! before, and that no earlier call made. The order in which a driver lists
//! nodes plays no part.

use std::collections::{HashMap, HashSet};

use streamweir_hal::driver::{CaptureStatus, NodeHandle, StreamHandle};
use streamweir_hal::owned::capture_info;
use streamweir_trace::{NodeId, Stream, StreamId};

use super::inputs::DeclaredAccess;
use super::lower::Lowered;
use crate::device::Device;
use crate::error::{During, EngineError, Error, Result};

/// Calls in the order in which they were made.
#[derive(Debug, Default)]
pub struct CallLog {
    calls: Vec<Call>,
    streams: Vec<StreamHandle>,
}

#[derive(Debug)]
struct Call {
    name: String,
    stream: usize,
    before: Vec<NodeHandle>,
    after: Vec<NodeHandle>,
    /// `None` when the call says nothing of what it touches.
    accesses: Option<Vec<DeclaredAccess>>,
}

impl CallLog {
    /// Runs `call`, which records on `stream`, and notes the nodes that it
    /// makes. `accesses` declares what they touch, all of it, or is `None`.
    ///
    /// # Errors
    /// When the stream is not capturing before or after the call.
    ///
    /// # Safety
    /// `stream` is a live stream of the device's context.
    pub unsafe fn call<R>(
        &mut self,
        device: &Device,
        stream: StreamHandle,
        name: &str,
        accesses: Option<&[DeclaredAccess]>,
        call: impl FnOnce() -> R,
    ) -> Result<R> {
        // SAFETY: the caller's promise.
        let before = unsafe { frontier(device, stream) }?;
        let result = call();
        // SAFETY: as above.
        let after = unsafe { frontier(device, stream) }?;
        let known = self.streams.iter().position(|&other| other == stream);
        let at = known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        });
        self.calls.push(Call {
            name: name.to_owned(),
            stream: at,
            before,
            after,
            accesses: accesses.map(<[_]>::to_vec),
        });
        Ok(result)
    }

    /// Gives the nodes of each call its name, stream and accesses.
    pub(super) fn declare(&self, lowered: &mut Lowered) {
        let mut ids: HashMap<NodeHandle, NodeId> = HashMap::new();
        for (at, handle) in lowered.handles.iter().enumerate() {
            if let Some(handle) = handle {
                ids.insert(*handle, NodeId::at(at));
            }
        }
        let mut parents: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for edge in &lowered.trace.edges {
            parents.entry(edge.to).or_default().push(edge.from);
        }
        let streams: Vec<StreamId> = self
            .streams
            .iter()
            .map(|handle| {
                let name = format!("stream {:#x}", handle.0);
                let mut stream = match lowered.trace.streams.first() {
                    None => Stream::origin(name),
                    Some(_) => Stream::forked(name, StreamId(0)),
                };
                // The driver has ended the capture, so all streams are joined.
                stream.end.joined = true;
                lowered.trace.add_stream(stream)
            })
            .collect();
        if streams.is_empty() {
            // Nobody noted a stream; the capture had one all the same.
            lowered.trace.add_stream(Stream::origin("origin"));
        }
        // And whatever is last is where it ended.
        let leads: HashSet<NodeId> = lowered.trace.edges.iter().map(|edge| edge.from).collect();
        let nodes = (0..lowered.trace.nodes.len()).map(NodeId::at);
        if let Some(origin) = lowered.trace.streams.first_mut() {
            origin.end.frontier = nodes.filter(|node| !leads.contains(node)).collect();
        }
        let mut taken: HashSet<NodeId> = HashSet::new();
        for call in &self.calls {
            let known = |handle: &NodeHandle| ids.get(handle).copied();
            taken.extend(call.before.iter().filter_map(known));
            let mut stack: Vec<NodeId> = call.after.iter().filter_map(known).collect();
            while let Some(node) = stack.pop() {
                if !taken.insert(node) {
                    continue;
                }
                stack.extend(parents.get(&node).into_iter().flatten());
                let entry = &mut lowered.trace.nodes[node.index()];
                entry.stream = Some(streams[call.stream]);
                let scope = call.name.clone();
                if entry.scope.is_none() {
                    entry.scope = Some(streamweir_trace::ScopeId::at(lowered.trace.scopes.len()));
                    lowered.trace.scopes.push(scope);
                }
                if let Some(accesses) = &call.accesses {
                    lowered.declared.insert(node);
                    let accesses = accesses.iter().map(|&access| (node, access));
                    lowered.touches.extend(accesses);
                }
            }
        }
    }
}

/// The nodes that the stream's next node would depend on.
unsafe fn frontier(device: &Device, stream: StreamHandle) -> Result<Vec<NodeHandle>> {
    let mut frontier = Vec::new();
    // SAFETY: the caller's promise.
    let info = unsafe { capture_info(&device.inner.reclaim, stream, &mut frontier) }
        .during(|| format!("looking at the capture of {stream:?}"))?;
    if info.status != CaptureStatus::Active {
        return Err(Error::Engine(EngineError::NotCapturing {
            stream: format!("{stream:?}"),
        }));
    }
    Ok(frontier)
}
