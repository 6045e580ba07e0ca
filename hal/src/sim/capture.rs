//! The state machine of stream capture.
//!
//! A capture belongs to its origin stream and grows by event waits: a stream
//! that waits for an event recorded in the capture becomes a member, and its
//! frontier is what the event recorded. A member's work makes nodes that depend
//! on its frontier. An illegal call invalidates the capture; it stays, and
//! every use of its members fails, until it is ended on its origin.

use std::thread;

use super::device::{Device, LEGACY};
use super::objects::{Capture, Graph, Membership};
use super::work::Work;
use crate::driver::{
    CaptureInfo, CaptureMode, CaptureStatus, DriverError, DriverResult, ErrorClass, EventHandle,
    GraphHandle, NodeHandle, StreamHandle,
};

impl Device {
    pub(super) fn capture_begin(
        &mut self,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> DriverResult<()> {
        if stream == LEGACY {
            return Err(self
                .fail(ErrorClass::CaptureUnsupported)
                .with("the legacy default stream cannot be captured"));
        }
        if self.stream(stream)?.capture.is_some() {
            return Err(self
                .fail(ErrorClass::IllegalState)
                .with(format!("{stream:?} is capturing already")));
        }
        let id = self.handle();
        let graph = GraphHandle(self.handle());
        self.graphs.insert(graph, Graph::capturing());
        self.captures.insert(
            id,
            Capture {
                graph,
                origin: stream,
                mode,
                thread: thread::current().id(),
                invalidated: false,
            },
        );
        self.join_capture(stream, id, &[]);
        Ok(())
    }

    pub(super) fn capture_end(&mut self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        let Some(member) = &self.stream(stream)?.capture else {
            return Err(self
                .fail(ErrorClass::IllegalState)
                .with(format!("{stream:?} is not capturing")));
        };
        let id = member.capture;
        let frontier = member.frontier.clone();
        let Some(capture) = self.captures.get(&id) else {
            return Err(self.fail(ErrorClass::IllegalState));
        };
        let origin = capture.origin;
        if origin != stream {
            self.invalidate(id);
            return Err(self
                .fail(ErrorClass::CaptureUnmatched)
                .with(format!("the capture was begun on {origin:?}; end it there")));
        }
        let graph = capture.graph;
        let foreign = capture.thread != thread::current().id();
        let outcome = if capture.mode != CaptureMode::Relaxed && foreign {
            Err(self.fail(ErrorClass::CaptureWrongThread))
        } else if capture.invalidated {
            Err(self.fail(ErrorClass::CaptureInvalidated))
        } else {
            self.joined(id, stream, graph, &frontier)
        };
        self.dismiss(id);
        match outcome {
            Ok(()) => {
                if let Some(graph) = self.graphs.get_mut(&graph) {
                    graph.capturing = false;
                }
                Ok(graph)
            }
            Err(error) => {
                self.remove_graph(graph);
                Err(error)
            }
        }
    }

    /// Lets go of a capture's members.
    fn dismiss(&mut self, id: u64) {
        self.captures.remove(&id);
        for member in self.streams.values_mut() {
            if member.capture.as_ref().is_some_and(|m| m.capture == id) {
                member.capture = None;
            }
        }
    }

    /// Takes a stream out of its capture because it is destroyed. The capture
    /// goes with its origin; without a forked stream it goes on.
    pub(super) fn leave_capture(&mut self, stream: StreamHandle) {
        let left = self
            .member(stream)
            .map(|member| member.capture)
            .and_then(|id| Some((id, self.captures.get(&id)?)))
            .filter(|(_, capture)| capture.origin == stream)
            .map(|(id, capture)| (id, capture.graph));
        if let Some((id, graph)) = left {
            self.dismiss(id);
            self.remove_graph(graph);
        }
    }

    /// Whether every node of the capture comes before the end of its origin.
    /// Each member's last nodes are leaves unless somebody came after them, so
    /// it is enough that all leaves are in the origin's frontier.
    fn joined(
        &self,
        capture: u64,
        origin: StreamHandle,
        graph: GraphHandle,
        frontier: &[NodeHandle],
    ) -> DriverResult<()> {
        let Some(graph) = self.graphs.get(&graph) else {
            return Err(self.fail(ErrorClass::CaptureInvalidated));
        };
        let Some(&leaf) = graph
            .leaves(&self.nodes)
            .iter()
            .find(|leaf| !frontier.contains(leaf))
        else {
            return Ok(());
        };
        let stray = self.streams.iter().find(|&(&handle, stream)| {
            handle != origin
                && stream
                    .capture
                    .as_ref()
                    .is_some_and(|m| m.capture == capture && m.frontier.contains(&leaf))
        });
        Err(self.fail(ErrorClass::CaptureUnjoined).with(match stray {
            Some((stream, _)) => format!("{stream:?} ends with {leaf:?}, which was not joined"),
            None => format!("{leaf:?} was not joined"),
        }))
    }

    pub(super) fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo> {
        frontier.clear();
        let found = self
            .stream(stream)?
            .capture
            .as_ref()
            .and_then(|member| Some((member, self.captures.get(&member.capture)?)));
        Ok(match found {
            None => CaptureInfo {
                status: CaptureStatus::None,
                id: 0,
                graph: None,
            },
            Some((_, capture)) if capture.invalidated => CaptureInfo {
                status: CaptureStatus::Invalidated,
                id: 0,
                graph: None,
            },
            Some((member, capture)) => {
                frontier.extend_from_slice(&member.frontier);
                CaptureInfo {
                    status: CaptureStatus::Active,
                    id: member.capture,
                    graph: Some(capture.graph),
                }
            }
        })
    }

    pub(super) fn exchange_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let thread = thread::current().id();
        // Global is what every thread starts with, so it needs no entry.
        match mode {
            CaptureMode::Global => self.modes.remove(&thread),
            mode => self.modes.insert(thread, mode),
        }
        .unwrap_or(CaptureMode::Global)
    }

    // --- what a capture forbids -------------------------------------------

    /// The check of every call that may synchronise, or wait for the device,
    /// somewhere inside: forbidden by the captures that the calling thread's
    /// mode makes it answer for, which are invalidated.
    pub(super) fn potentially_unsafe(&mut self) -> DriverResult<()> {
        let thread = thread::current().id();
        let mode = self
            .modes
            .get(&thread)
            .copied()
            .unwrap_or(CaptureMode::Global);
        if mode == CaptureMode::Relaxed {
            return Ok(());
        }
        let mut forbidden = false;
        for capture in self.captures.values_mut() {
            let own = capture.thread == thread && capture.mode != CaptureMode::Relaxed;
            let global = capture.mode == CaptureMode::Global && mode == CaptureMode::Global;
            if own || global {
                capture.invalidated = true;
                forbidden = true;
            }
        }
        if forbidden {
            return Err(self.fail(ErrorClass::CaptureUnsupported));
        }
        Ok(())
    }

    /// The check of calls that no capturing stream may take.
    pub(super) fn not_capturing(&mut self, stream: StreamHandle) -> DriverResult<()> {
        let Some(member) = &self.stream(stream)?.capture else {
            return Ok(());
        };
        let capture = member.capture;
        self.invalidate(capture);
        Err(self
            .fail(ErrorClass::CaptureUnsupported)
            .with(format!("{stream:?} is capturing")))
    }

    pub(super) fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalidated = true;
        }
    }

    fn stale_event(&self, event: EventHandle) -> DriverError {
        self.fail(ErrorClass::InvalidValue).with(format!(
            "{event:?} was recorded in a capture that has ended; record it anew"
        ))
    }

    /// The failure of a host-side wait for an event that a capture recorded.
    /// The capture is invalidated when it is still going on.
    pub(super) fn captured_event(&mut self, event: EventHandle, capture: u64) -> DriverError {
        if !self.captures.contains_key(&capture) {
            return self.stale_event(event);
        }
        self.invalidate(capture);
        self.fail(ErrorClass::CapturedEvent)
            .with(format!("{event:?} was recorded in a capture"))
    }

    // --- membership -------------------------------------------------------

    /// The capture that a stream is a member of, if it can still be added to.
    pub(super) fn capture_of(&self, stream: StreamHandle) -> DriverResult<Option<u64>> {
        let Some(member) = &self.stream(stream)?.capture else {
            return Ok(None);
        };
        match self.captures.get(&member.capture) {
            Some(capture) if !capture.invalidated => Ok(Some(member.capture)),
            _ => Err(self.fail(ErrorClass::CaptureInvalidated)),
        }
    }

    pub(super) fn frontier(&self, stream: StreamHandle) -> DriverResult<&[NodeHandle]> {
        Ok(self
            .stream(stream)?
            .capture
            .as_ref()
            .map_or(&[], |member| &member.frontier))
    }

    /// Makes work a node behind the stream's frontier.
    pub(super) fn record(&mut self, stream: StreamHandle, work: Work) -> DriverResult<()> {
        let Some(graph) = self
            .capture_of(stream)?
            .and_then(|id| self.captures.get(&id))
            .map(|capture| capture.graph)
        else {
            return Err(self.fail(ErrorClass::IllegalState));
        };
        let after = self.frontier(stream)?.to_vec();
        let node = self.add_node(graph, work, after);
        if let Some(member) = self.member(stream) {
            member.frontier = vec![node];
        }
        Ok(())
    }

    /// A wait for an event that was recorded in a capture.
    pub(super) fn wait_captured(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
        capture: u64,
        frontier: &[NodeHandle],
    ) -> DriverResult<()> {
        let own = self.capture_of(stream)?;
        match self.captures.get(&capture) {
            None => {
                if let Some(own) = own {
                    self.invalidate(own);
                }
                return Err(self.stale_event(event));
            }
            Some(other) if other.invalidated => {
                return Err(self.fail(ErrorClass::CaptureInvalidated));
            }
            Some(_) => {}
        }
        if own.is_some_and(|own| own != capture) {
            for id in own.into_iter().chain([capture]) {
                self.invalidate(id);
            }
            return Err(self.fail(ErrorClass::CaptureMerge));
        }
        if stream == LEGACY {
            self.invalidate(capture);
            return Err(self.fail(ErrorClass::CaptureImplicit));
        }
        self.join_capture(stream, capture, frontier);
        Ok(())
    }

    fn join_capture(&mut self, stream: StreamHandle, capture: u64, nodes: &[NodeHandle]) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            let member = stream.capture.get_or_insert_with(|| Membership {
                capture,
                frontier: Vec::new(),
            });
            for node in nodes {
                if !member.frontier.contains(node) {
                    member.frontier.push(*node);
                }
            }
        }
    }

    fn member(&mut self, stream: StreamHandle) -> Option<&mut Membership> {
        self.streams.get_mut(&stream)?.capture.as_mut()
    }
}
