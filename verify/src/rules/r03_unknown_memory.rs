//! R3, unknown memory: a declared access, or a declared pointer parameter, that
//! lies in no arena and no registered buffer. Nothing keeps such memory alive
//! for the replay, and nothing else can be checked about it.
//!
//! ```text
//! breaks:  let p = allocate(n);            safe:  let p = persistent("weights", n);
//!          launch(k, (raw(p), ..));               launch(k, (&p, ..));
//!          drop(p);                               drop(p);   // the graph keeps it alive
//! ```

use streamweir_trace::{
    BufferId, BufferKind, ByteRange, Keeper, NodeId, NodeKind, StrayMemory, Trace,
};

use crate::context::Context;
use crate::findings::{self, Finding, Findings, Subject};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};
use crate::rules::stray_words;

pub(super) const NUMBER: &str = "R3";

/// What lies in no known memory.
#[derive(Debug)]
enum Cause {
    /// A declared range.
    Range,
    /// A declared pointer parameter of this node, by its place.
    Pointer { node: NodeId, place: u32 },
    /// Memory that only the driver knows, and that nobody keeps.
    Foreign,
}

impl findings::Cause for Cause {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let (node, place) = match *self {
            Self::Pointer { node, place } => (node, place),
            Self::Range => return "an access to memory that is no known buffer".to_owned(),
            Self::Foreign => {
                let name = finding.buffer(trace, 0);
                return format!("\"{name}\" is memory that only the driver knows, and nothing keeps it alive");
            }
        };
        let param = match &trace.node(node).kind {
            NodeKind::Kernel(kernel) => kernel.params.get(place as usize),
            _ => None,
        };
        match param.map_or("", |param| param.name.as_str()) {
            "" => format!("parameter {place} points into no known memory"),
            name => format!("parameter {place} \"{name}\" points into no known memory"),
        }
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, .. } = input;
    for (at, access) in (0_u32..).zip(&context.trace.unknown) {
        if access.range.is_empty() {
            continue;
        }
        let fix = Fix::Register {
            range: access.range,
        };
        findings.push(Finding {
            subject: Subject::UnknownAccess(at),
            modes: [Some(access.mode), None],
            bytes: access.range,
            ..Finding::of_node(Rule::UnknownMemory, Cause::Range, access.node, fix)
        });
    }
    for &node in &context.facts.unknown_pointers {
        let NodeKind::Kernel(kernel) = &context.trace.node(node).kind else {
            continue;
        };
        for (place, param) in (0_u32..).zip(&kernel.params) {
            // A null pointer refers to nothing; optional arguments pass it.
            let unknown = param.pointers().find_map(|(at, target)| {
                let address = param.word(at);
                (target.buffer.is_none() && address != Some(0)).then_some(address)
            });
            let Some(address) = unknown else {
                continue;
            };
            let bytes = address
                .and_then(|address| ByteRange::from_len(address, 1))
                .unwrap_or_default();
            let cause = Cause::Pointer { node, place };
            let fix = Fix::Register { range: bytes };
            findings.push(Finding {
                subject: Subject::Param(place),
                bytes,
                ..Finding::of_node(Rule::UnknownMemory, cause, node, fix)
            });
        }
    }
    foreign_memory(context, findings);
    stray_words::check(context, Rule::UnknownMemory, StrayMemory::Live, findings);
    Ok(())
}

/// Memory that only the driver knows may be kept by somebody whom the trace does
/// not name, so the hazard is a possible one.
fn foreign_memory(context: &Context<'_>, findings: &Findings) {
    let kind = BufferKind::Foreign {
        keeper: Keeper::Nobody,
    };
    for (at, buffer) in context.trace.buffers.iter().enumerate() {
        if buffer.kind != kind {
            continue;
        }
        let id = BufferId::at(at);
        let mut last = None;
        for touch in context.accesses.of(id) {
            if last.replace(touch.node) != Some(touch.node) {
                let fix = Fix::Register {
                    range: buffer.range,
                };
                findings.push(Finding {
                    subject: Subject::Buffer(id),
                    proven: false,
                    ..Finding::of_touch(Rule::UnknownMemory, Cause::Foreign, &touch, fix)
                });
            }
        }
    }
}
