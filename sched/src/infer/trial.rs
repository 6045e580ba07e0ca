//! Trials: one kernel alone, and what it did to the known memory.

use std::collections::HashMap;

use streamweir_hal::driver::{DriverResult, NodeHandle};
use streamweir_hal::owned::{
    OwnedExec, OwnedGraph, OwnedStream, Shared, download, node_attributes, upload,
};
use streamweir_trace::{BufferId, BufferKind, ByteRange, NodeId, NodeKind};

use super::inference::{InferOptions, Inference, MOST_RUNS, Outcome};
use super::{marks, refuse};
use crate::audit::Audit;
use crate::device::Device;
use crate::error::{During, Error, Result};

/// Bytes of buffers that were seen to change.
type Runs = Vec<(BufferId, ByteRange)>;

/// What is told about a trial that begins or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All is saved; the trials begin.
    Ready,
    /// This kernel is about to run.
    Begin(NodeId),
    /// So much is known of it whatever the rest of its trials does.
    Seen(NodeId, Runs),
    /// This is known of it.
    Done(NodeId, Outcome),
}

/// Tries every kernel but those in `skip`.
///
/// # Safety
/// As for [`infer_writes`](super::infer_writes) in this process.
pub(super) unsafe fn run(
    device: &Device,
    audit: &Audit,
    options: &InferOptions,
    skip: &[(NodeId, String)],
    tell: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Inference> {
    device.inner.wait_for_all()?;
    // SAFETY: the caller's promise.
    let mut bench = unsafe { Bench::new(device, audit, options) }?;
    tell(&Progress::Ready)?;
    let mut inference = Inference::default();
    for (id, handle) in kernels(audit) {
        let refused = skip.iter().find(|(node, _)| *node == id);
        let refused = refused.map(|(_, why)| why.clone());
        let outcome = match refused.or_else(|| refusal(device, audit, id, handle)) {
            Some(why) => Outcome::NotInferred(why),
            None => {
                tell(&Progress::Begin(id))?;
                // SAFETY: the caller's promise; the handle is of the live graph.
                let tried = unsafe {
                    bench.try_kernel(handle, &named(audit, id), &mut |runs| {
                        tell(&Progress::Seen(id, runs.clone()))
                    })
                }?;
                match tried {
                    Ok(runs) => Outcome::Written(runs),
                    Err(error) => {
                        // SAFETY: known memory; what could run has failed.
                        unsafe { bench.restore_all() }.map_err(|then| Error::Infer {
                            capture: audit.trace.name.clone(),
                            why: format!(
                                "the trial of {id} `{}` failed ({error}), and the memory could not be restored ({then})",
                                audit.trace.node(id).name
                            ),
                        })?;
                        Outcome::NotInferred(format!("its trial failed: {error}"))
                    }
                }
            }
        };
        tell(&Progress::Done(id, outcome.clone()))?;
        inference.nodes.push((id, outcome));
    }
    Ok(inference)
}

/// The kernels whose accesses are not declared, with their handles.
pub(super) fn kernels(audit: &Audit) -> Vec<(NodeId, NodeHandle)> {
    let nodes = audit.trace.nodes.iter().enumerate();
    nodes
        .filter(|(_, node)| matches!(node.kind, NodeKind::Kernel(_)) && !node.analysed)
        .filter_map(|(at, _)| Some((NodeId::at(at), audit.handles[at]?)))
        .collect()
}

/// The buffers that a kernel has an address of.
fn named(audit: &Audit, id: NodeId) -> Vec<BufferId> {
    let words = audit.trace.possible.iter().filter(|word| word.node == id);
    words.map(|word| word.buffer).collect()
}

/// Why a kernel is not run; `None` when it is.
fn refusal(device: &Device, audit: &Audit, id: NodeId, handle: NodeHandle) -> Option<String> {
    let node = audit.trace.node(id);
    if let Some(why) = refuse::by_name(&node.name) {
        return Some(why);
    }
    // SAFETY: a node of the live graph, by the promise made to `infer_writes`.
    match unsafe { node_attributes(&device.inner.reclaim, handle) } {
        Ok(attributes) if attributes.device_updatable => {
            return Some("it may be changed on the device".to_owned());
        }
        Ok(_) => {}
        Err(error) => return Some(format!("its attributes are not known: {error}")),
    }
    let graph_memory = audit.trace.possible.iter().find(|word| {
        let kind = &audit.trace.buffer(word.buffer).kind;
        word.node == id && matches!(kind, BufferKind::Graph { .. })
    });
    graph_memory.map(|word| {
        let name = &audit.trace.buffer(word.buffer).name;
        format!("\"{name}\" is there only while the graph runs")
    })
}

/// The known memory with what was in it, and a stream to run kernels on.
struct Bench<'a> {
    reclaim: &'a Shared,
    stream: OwnedStream,
    blocks: Vec<Block>,
}

struct Block {
    buffer: BufferId,
    start: u64,
    saved: Vec<u8>,
    seen: Vec<u8>,
}

impl<'a> Bench<'a> {
    unsafe fn new(device: &'a Device, audit: &Audit, options: &InferOptions) -> Result<Self> {
        let reclaim = &device.inner.reclaim;
        let ranges: Vec<_> = audit
            .standing
            .iter()
            .map(|&buffer| (buffer, audit.trace.buffer(buffer).range))
            .collect();
        let bytes = ranges.iter().map(|(_, range)| range.len()).sum::<u64>();
        if bytes > options.most_bytes {
            return Err(Error::Infer {
                capture: audit.trace.name.clone(),
                why: format!(
                    "{bytes} bytes of known memory would be saved, and {} are allowed; raise `most_bytes` or name less memory",
                    options.most_bytes
                ),
            });
        }
        let stream =
            OwnedStream::new(reclaim, 0).during(|| "creating a stream for trials".into())?;
        let mut bench = Self {
            reclaim,
            stream,
            blocks: Vec::with_capacity(ranges.len()),
        };
        for (buffer, range) in ranges {
            let len = usize::try_from(range.len()).map_err(|_| Error::Infer {
                capture: audit.trace.name.clone(),
                why: format!("{range} does not fit the host"),
            })?;
            bench.blocks.push(Block {
                buffer,
                start: range.start,
                saved: vec![0; len],
                seen: vec![0; len],
            });
        }
        // SAFETY: known memory is live, by the caller's promise.
        unsafe { bench.look() }.during(|| "saving the known memory".into())?;
        for block in &mut bench.blocks {
            block.saved.clone_from(&block.seen);
        }
        // A second look without a kernel: whoever else writes is found here.
        // SAFETY: as above.
        unsafe { bench.look() }.during(|| "looking at the known memory again".into())?;
        let moving = bench.blocks.iter().find(|block| block.saved != block.seen);
        if let Some(block) = moving {
            return Err(Error::Infer {
                capture: audit.trace.name.clone(),
                why: format!(
                    "\"{}\" changes while nothing of the graph runs; wait for all work on the device first",
                    audit.trace.buffer(block.buffer).name
                ),
            });
        }
        Ok(bench)
    }

    /// Runs a kernel a few times and returns the bytes that it was seen to
    /// write. The memory is as it was before.
    ///
    /// First as everything is. Then with other values in what was written, twice.
    /// What is known by then is told to `seen`, for the rest may go wrong: each
    /// block that the kernel has an address of is filled in turn, as far as its
    /// contents are numbers. A result that lay there already from an earlier run
    /// is found by that alone.
    unsafe fn try_kernel(
        &mut self,
        handle: NodeHandle,
        named: &[BufferId],
        seen: &mut dyn FnMut(&Runs) -> Result<()>,
    ) -> Result<DriverResult<Runs>> {
        let lens = self.blocks.iter().map(|block| block.saved.len());
        let mut changed: Vec<Vec<bool>> = lens.map(|len| vec![false; len]).collect();
        // SAFETY: a node of a live graph, by the caller's promise.
        let exec = match unsafe { OwnedGraph::alone(self.reclaim, handle) }
            .and_then(|graph| graph.instantiate())
        {
            Ok(exec) => exec,
            Err(error) => return Ok(Err(error)),
        };
        // SAFETY: the caller's promise, here and below.
        let mut outputs = match unsafe { self.run(&exec, &[], 0, &mut changed) } {
            Ok(outputs) => outputs,
            Err(error) => return Ok(Err(error)),
        };
        outputs.retain(|(_, runs)| !runs.is_empty());
        if !outputs.is_empty() {
            for pattern in marks::PATTERNS {
                // SAFETY: as above.
                if let Err(error) = unsafe { self.run(&exec, &outputs, pattern, &mut changed) } {
                    return Ok(Err(error));
                }
            }
        }
        seen(&self.runs(&changed))?;
        for at in 0..self.blocks.len() {
            if !named.contains(&self.blocks[at].buffer) {
                continue;
            }
            let runs = marks::numbers(&self.blocks[at].saved, |word| self.is_address(word));
            if runs.is_empty() {
                continue;
            }
            // SAFETY: as above.
            let filled =
                unsafe { self.run(&exec, &[(at, runs)], marks::PATTERNS[0], &mut changed) };
            if let Err(error) = filled {
                return Ok(Err(error));
            }
        }
        Ok(Ok(self.runs(&changed)))
    }

    /// One trial: fills, launches, compares, restores. The words that were
    /// written and may be filled, by block.
    unsafe fn run(
        &mut self,
        exec: &OwnedExec,
        fills: &[(usize, Vec<ByteRange>)],
        pattern: u8,
        changed: &mut [Vec<bool>],
    ) -> DriverResult<Vec<(usize, Vec<ByteRange>)>> {
        let mut filled: HashMap<usize, Vec<u8>> = HashMap::new();
        for (at, runs) in fills {
            let block = &self.blocks[*at];
            let mut bytes = block.saved.clone();
            for run in runs {
                let end = bytes.len().min(run.end as usize);
                bytes[run.start as usize..end].fill(pattern);
            }
            // SAFETY: known memory, which nothing uses now.
            unsafe { upload(self.reclaim, block.start, &bytes) }?;
            filled.insert(*at, bytes);
        }
        // SAFETY: all that the kernel uses is live, by the caller's promise.
        unsafe { self.stream.launch_graph(exec) }?;
        self.stream.synchronize()?;
        // SAFETY: known memory; the kernel has ended.
        unsafe { self.look() }?;
        let mut outputs = Vec::new();
        for (at, block) in self.blocks.iter().enumerate() {
            let before = filled.get(&at).unwrap_or(&block.saved);
            if *before == block.seen {
                continue;
            }
            marks::difference(before, &block.seen, &mut changed[at]);
            let address = |word| self.is_address(word);
            let runs = marks::fillable(&changed[at], before, &block.seen, address);
            outputs.push((at, runs));
        }
        // SAFETY: as above.
        unsafe { self.restore() }?;
        Ok(outputs)
    }

    fn runs(&self, changed: &[Vec<bool>]) -> Runs {
        let blocks = self.blocks.iter().zip(changed);
        blocks
            .flat_map(|(block, changed)| {
                let runs = marks::longest(marks::runs(changed), MOST_RUNS);
                runs.into_iter().map(|run| (block.buffer, run))
            })
            .collect()
    }

    /// Whether a word is an address of known memory.
    fn is_address(&self, word: u64) -> bool {
        self.blocks.iter().any(|block| {
            word.checked_sub(block.start)
                .is_some_and(|offset| offset < block.saved.len() as u64)
        })
    }

    /// Reads all known memory.
    unsafe fn look(&mut self) -> DriverResult<()> {
        for block in &mut self.blocks {
            // SAFETY: known memory, and no kernel is running.
            unsafe { download(self.reclaim, &mut block.seen, block.start) }?;
        }
        Ok(())
    }

    /// Puts everything back, whatever is there.
    unsafe fn restore_all(&self) -> DriverResult<()> {
        self.stream.synchronize()?;
        for block in &self.blocks {
            // SAFETY: as above.
            unsafe { upload(self.reclaim, block.start, &block.saved) }?;
        }
        Ok(())
    }

    /// Puts everything back that was seen to differ, patterns included.
    unsafe fn restore(&self) -> DriverResult<()> {
        for block in self.blocks.iter().filter(|block| block.seen != block.saved) {
            // SAFETY: as above.
            unsafe { upload(self.reclaim, block.start, &block.saved) }?;
        }
        Ok(())
    }
}
