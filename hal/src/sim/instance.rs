//! Instantiated graphs, and their launches.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::device::Device;
#[cfg(feature = "testing")]
use super::objects::Task;
use super::objects::{Event, Exec, Image, ImageNode, Keep};
use super::schedule::TaskId;
use super::work::Work;
use crate::driver::{DriverResult, ErrorClass, ExecHandle, GraphHandle, NodeHandle, StreamHandle};

impl Device {
    pub(super) fn graph_instantiate(&mut self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        self.potentially_unsafe()?;
        let image = Arc::new(self.image(graph)?);
        let exec = ExecHandle(self.handle());
        self.execs.insert(
            exec,
            Exec {
                image,
                disabled: BTreeSet::new(),
                last: Vec::new(),
            },
        );
        Ok(exec)
    }

    fn image(&self, graph: GraphHandle) -> DriverResult<Image> {
        let graph = self.graph(graph)?;
        if graph.capturing {
            return Err(self
                .fail(ErrorClass::IllegalState)
                .with("the graph is still being captured"));
        }
        let keep = graph.keep.clone();
        let leaves: BTreeSet<_> = graph.leaves(&self.nodes).into_iter().collect();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for (handle, at) in self.flatten(graph, &mut nodes, &[])? {
            nodes[at].is_leaf = leaves.contains(&handle);
        }
        Ok(Image { nodes, _keep: keep })
    }

    /// Makes an instantiated graph do in later launches what `graph` does. Handles of
    /// nodes stay those that it was instantiated from.
    pub(super) fn exec_update(&mut self, exec: ExecHandle, graph: GraphHandle) -> DriverResult<()> {
        self.potentially_unsafe()?;
        let mut image = self.image(graph)?;
        let Some(found) = self.execs.get(&exec) else {
            return Err(self.unknown(exec));
        };
        let refused = |why: String| Err(self.fail(ErrorClass::GraphUpdateRefused).with(why));
        let old = &found.image.nodes;
        if old.len() != image.nodes.len() {
            return refused(format!("{} nodes, not {}", image.nodes.len(), old.len()));
        }
        for (old, new) in old.iter().zip(&mut image.nodes) {
            if old.after != new.after || old.is_leaf != new.is_leaf {
                return refused(format!("{:?} has other edges", new.handle));
            }
            if !new.work.may_replace(&old.work) {
                return refused(format!(
                    "{:?} is a {} where a {} was",
                    new.handle,
                    new.work.name(),
                    old.work.name()
                ));
            }
            new.handle = old.handle;
        }
        if let Some(found) = self.execs.get_mut(&exec) {
            let former = std::mem::replace(&mut found.image, Arc::new(image));
            self.trash.push(former);
        }
        Ok(())
    }

    /// Lets a node do nothing in later launches, or again what it did.
    pub(super) fn exec_enable(
        &mut self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()> {
        self.node(node)?;
        let refused = self.fail(ErrorClass::InvalidValue);
        let unknown = self.unknown(exec);
        let found = self.execs.get_mut(&exec).ok_or(unknown)?;
        let at = found.image.nodes.iter().find(|at| at.handle == node);
        if !at.is_some_and(|at| at.work.may_be_disabled()) {
            return Err(refused.with(format!("{node:?} is no kernel, copy or fill of {exec:?}")));
        }
        match enabled {
            true => found.disabled.remove(&node),
            false => found.disabled.insert(node),
        };
        Ok(())
    }

    /// Enqueues a launch behind the stream and behind the previous launch of
    /// the same instantiated graph.
    pub(super) fn exec_launch(
        &mut self,
        exec: ExecHandle,
        stream: StreamHandle,
    ) -> DriverResult<()> {
        let Some(found) = self.execs.get(&exec) else {
            return Err(self.unknown(exec));
        };
        let image = Arc::clone(&found.image);
        let disabled = found.disabled.clone();
        let mut start = found.last.clone();
        if let Some(capture) = self.capture_of(stream)? {
            self.invalidate(capture);
            return Err(self
                .fail(ErrorClass::CaptureUnsupported)
                .with("an instantiated graph cannot be captured"));
        }
        start.extend(&self.stream(stream)?.tail);
        for node in &image.nodes {
            self.operands_live(node)?;
        }
        // An event node orders nothing inside its own graph: all waits look at
        // what was recorded before the launch.
        let mut records = Vec::new();
        let mut tasks: Vec<TaskId> = Vec::with_capacity(image.nodes.len());
        let mut leaves = Vec::new();
        for node in &image.nodes {
            let mut after: Vec<TaskId> = node.after.iter().map(|&at| tasks[at]).collect();
            if after.is_empty() {
                after.extend(&start);
            }
            if let Work::EventWait(event) = node.work
                && let Event::Recorded { tail, .. } = self.event(event)?
            {
                after.extend(tail);
            }
            let keep: Keep = Arc::clone(&image) as Keep;
            let work = match disabled.contains(&node.handle) {
                true => Work::Empty,
                false => node.work.clone(),
            };
            let task = self.executor.enqueue(work, after, Some(keep));
            if let Work::EventRecord(event) = node.work {
                records.push((event, task));
            }
            if node.is_leaf {
                leaves.push(task);
            }
            tasks.push(task);
        }
        for (event, task) in records {
            let recorded = self.recorded(vec![task]);
            self.events.insert(event, recorded);
        }
        if !image.nodes.is_empty() {
            self.set_tail(stream, leaves.clone());
            if let Some(exec) = self.execs.get_mut(&exec) {
                exec.last = leaves;
            }
        }
        self.trash.push(image);
        Ok(())
    }

    /// The nodes of an instantiated graph that could be launched now.
    #[cfg(feature = "testing")]
    pub(super) fn exec_tasks(&self, exec: ExecHandle) -> DriverResult<Vec<Task>> {
        let Some(found) = self.execs.get(&exec) else {
            return Err(self.unknown(exec));
        };
        found
            .image
            .nodes
            .iter()
            .map(|node| {
                self.operands_live(node)?;
                if let Work::Host(_) = node.work {
                    return Err(self
                        .fail(ErrorClass::NotSupported)
                        .with("what a function of the host does cannot be taken back"));
                }
                Ok(Task {
                    work: match found.disabled.contains(&node.handle) {
                        true => Work::Empty,
                        false => node.work.clone(),
                    },
                    after: node.after.clone(),
                })
            })
            .collect()
    }

    /// A graph does not keep its functions and events alive; using one that is
    /// gone is undefined on a real device, and an error here.
    fn operands_live(&self, node: &ImageNode) -> DriverResult<()> {
        let gone = match &node.work {
            Work::Kernel { function, .. } if !self.functions.contains_key(&function.handle) => {
                format!("the module of {} was unloaded", function.kernel.symbol)
            }
            Work::EventRecord(event) | Work::EventWait(event)
                if !self.events.contains_key(event) =>
            {
                format!("{event:?} was destroyed")
            }
            _ => return Ok(()),
        };
        Err(self
            .fail(ErrorClass::InvalidHandle)
            .with(format!("{:?} cannot run: {gone}", node.handle)))
    }

    pub(super) fn exec_destroy(&mut self, exec: ExecHandle) -> DriverResult<()> {
        self.potentially_unsafe()?;
        match self.execs.remove(&exec) {
            Some(exec) => {
                self.trash.push(exec.image);
                Ok(())
            }
            None => Err(self.unknown(exec)),
        }
    }
}
