//! What is wrong, in one sentence per finding.

use streamweir_trace::{BufferId, NodeKind, StrayMemory, Trace};

use crate::findings::{Cause, Finding};

pub(super) fn headline(trace: &Trace, finding: &Finding) -> String {
    let name = |id: Option<BufferId>| id.map_or("?", |id| trace.buffer(id).name.as_str());
    let a = name(finding.buffers[0]);
    let b = name(finding.buffers[1]);
    match &finding.cause {
        Cause::Unordered if finding.buffers[1].is_none() => {
            format!("nothing orders two accesses of the same bytes of \"{a}\"")
        }
        Cause::Unordered => {
            format!("\"{a}\" and \"{b}\" share bytes, and nothing orders their accesses")
        }
        Cause::SameNode => format!("one node uses \"{a}\" and \"{b}\", which share bytes"),
        Cause::Between => {
            format!("\"{a}\" is used between two uses of \"{b}\", and they share bytes")
        }
        Cause::Carried => {
            format!("\"{a}\" and \"{b}\" share bytes that one of them keeps from replay to replay")
        }
        Cause::Untouched => format!(
            "\"{a}\" is written over bytes that \"{b}\" keeps from replay to replay and that no node here touches"
        ),
        Cause::UnknownRange => "an access to memory that is no known buffer".to_owned(),
        Cause::UnknownPointer(place) => {
            let param = finding.first.and_then(|node| match &trace.node(node).kind {
                NodeKind::Kernel(kernel) => kernel.params.get(*place as usize),
                _ => None,
            });
            match param.map_or("", |param| param.name.as_str()) {
                "" => format!("parameter {place} points into no known memory"),
                name => format!("parameter {place} \"{name}\" points into no known memory"),
            }
        }
        Cause::StrayWord(at) => {
            let word = &trace.stray[*at as usize];
            let memory = match (word.memory, word.name.as_str()) {
                (StrayMemory::Live, "") => "memory that nothing keeps alive".to_owned(),
                (StrayMemory::Live, name) => format!("\"{name}\", which nothing keeps alive"),
                (StrayMemory::Freed, "") => "memory that had been freed".to_owned(),
                (StrayMemory::Freed, name) => format!("\"{name}\", which had been freed"),
            };
            format!(
                "a word of parameter {} is the address {:#x} of {memory}",
                word.param, word.at
            )
        }
        Cause::BeforeAlloc => {
            format!("\"{a}\" is used by a node that is not after its alloc point")
        }
        Cause::AfterFree => format!("\"{a}\" is used by a node recorded after its free"),
        Cause::Unjoined => match finding
            .tag
            .checked_sub(1)
            .and_then(|at| trace.streams.get(at as usize))
        {
            Some(stream) => format!("the work of stream \"{}\" is not joined", stream.name),
            None => "work on no known stream is not joined".to_owned(),
        },
        Cause::Protocol(entry) => {
            let entry = &trace.protocol[*entry as usize];
            format!("`{}`: {}", entry.call, entry.what)
        }
        Cause::ForeignStream => {
            format!("workspace \"{a}\" is used by a stream that does not own it")
        }
        Cause::Unwritten => {
            format!("\"{a}\" is read before anything has written it in this replay")
        }
        Cause::NeverFreed if finding.buffers[0].is_none() => {
            "the graph allocates memory that no node of it frees, so its second launch fails"
                .to_owned()
        }
        Cause::NeverFreed => {
            format!("no node of the graph frees \"{a}\", so the second launch fails")
        }
        Cause::FreedWhileUsed => {
            format!("\"{a}\" is used by a node that does not end before its free node")
        }
        Cause::FreedBeforeAlloc => {
            "a free node does not come after the allocation of what it frees".to_owned()
        }
        Cause::FreedTwice => "memory of the graph is freed a second time".to_owned(),
        Cause::FreesForeign if finding.buffers[0].is_none() => {
            "a free node of memory that no node of this graph allocates".to_owned()
        }
        Cause::FreesForeign => {
            format!("a free node frees \"{a}\", which no node of this graph allocates")
        }
        Cause::NotResident => {
            "kernels may run together, and the blocks of one spin on each other with nothing to \
             guarantee that all of them are resident"
                .to_owned()
        }
        Cause::Driver(what) => what.clone(),
    }
}
