//! The events of the format, as it is described in "Trace Event Format".

use serde::Serialize;
use serde_json::Value;

/// The device of a graph: a trace is about one, and does not say which.
pub(super) const DEVICE: u32 = 0;

/// One event. What a phase does not use is left out.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) ph: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dur: Option<f64>,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Of a flow: what its two ends have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    /// Of the end of a flow: it belongs to the slice around it, and not to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bp: Option<&'static str>,
    /// Of an instant: it is one of its lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) s: Option<&'static str>,
    /// A colour that viewers know by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cname: Option<&'static str>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) args: Value,
}

/// What an event is.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Phase {
    #[serde(rename = "M")]
    Metadata,
    #[serde(rename = "X")]
    Complete,
    #[serde(rename = "i")]
    Instant,
    #[serde(rename = "s")]
    FlowStart,
    #[serde(rename = "f")]
    FlowEnd,
}

impl Event {
    fn new(ph: Phase, name: impl Into<String>, tid: u32) -> Self {
        Self {
            name: name.into(),
            ph,
            cat: None,
            ts: None,
            dur: None,
            pid: DEVICE,
            tid,
            id: None,
            bp: None,
            s: None,
            cname: None,
            args: Value::Null,
        }
    }

    /// A statement about the process or about a lane.
    pub(super) fn metadata(what: &'static str, tid: u32, args: Value) -> Self {
        Self {
            args,
            ..Self::new(Phase::Metadata, what, tid)
        }
    }

    /// A bar on a lane.
    pub(super) fn bar(
        name: impl Into<String>,
        cat: &'static str,
        tid: u32,
        [ts, dur]: [f64; 2],
        args: Value,
    ) -> Self {
        Self {
            cat: Some(cat),
            ts: Some(ts),
            dur: Some(dur),
            args,
            ..Self::new(Phase::Complete, name, tid)
        }
    }

    /// A mark on a lane.
    pub(super) fn mark(name: String, cat: &'static str, tid: u32, ts: f64, args: Value) -> Self {
        Self {
            cat: Some(cat),
            ts: Some(ts),
            s: Some("t"),
            args,
            ..Self::new(Phase::Instant, name, tid)
        }
    }

    /// Both ends of an arrow, each a lane and a time inside a bar of it.
    pub(super) fn flow(
        name: &str,
        cat: &'static str,
        id: u64,
        from: (u32, f64),
        to: (u32, f64),
    ) -> [Self; 2] {
        let end = |ph, (tid, ts), bp| Self {
            cat: Some(cat),
            ts: Some(ts),
            id: Some(id),
            bp,
            ..Self::new(ph, name, tid)
        };
        [
            end(Phase::FlowStart, from, None),
            end(Phase::FlowEnd, to, Some("e")),
        ]
    }
}
