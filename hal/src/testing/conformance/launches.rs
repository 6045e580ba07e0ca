//! Launches beyond the plain one: what a node tells of them, functions of the host, and
//! instantiated graphs that are updated.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use streamweir_trace::NodeKind;

use super::rig::{BYTES, Check, Rig, equal, fails};
use crate::driver::{Backend, ErrorClass, HostCall, LaunchShape, NodeHandle, Start, StreamHandle};

const ELEMENTS: u32 = (BYTES / 4) as u32;

impl Rig<'_> {
    /// The fixture's kernel in a shape that has a thread for each element.
    fn add_one_in(
        &self,
        stream: StreamHandle,
        shape: LaunchShape,
        start: Start,
        mut data: u64,
    ) -> Check {
        let function = self.function()?;
        let mut len = ELEMENTS;
        let mut params: [*mut c_void; 2] = [(&raw mut data).cast(), (&raw mut len).cast()];
        // SAFETY: the fixture's kernel has these two parameters; the memory has as many
        // elements and lives until `close`.
        let launched = unsafe { (self.driver).launch(stream, function, shape, start, &mut params) };
        Ok(launched?)
    }

    fn attributes(
        &self,
        node: NodeHandle,
    ) -> Result<crate::driver::KernelAttributes, super::Failure> {
        // SAFETY: a node of a live graph.
        Ok(unsafe { self.driver.graph_attributes(node) }?)
    }

    fn has_clusters(&self) -> bool {
        let info = self.driver.info();
        info.backend != Backend::Cuda || info.capability >= (9, 0)
    }

    fn element_is(&self, data: u64, value: u32) -> Check {
        let mut bytes = [0; 4];
        // SAFETY: live memory; cases wait before.
        unsafe { self.driver.copy_to_host(&mut bytes, data) }?;
        equal("the first element", value, u32::from_le_bytes(bytes))
    }
}

fn plain() -> LaunchShape {
    (ELEMENTS.div_ceil(32), 32).into()
}

pub(super) fn cooperative_launch_says_so(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.add_one_in(stream, plain(), Start::Together, data)?;
    rig.add_one_in(stream, plain(), Start::InOrder, data)?;
    let graph = rig.end(stream)?;
    let nodes = rig.nodes(graph)?;
    let told = [rig.attributes(nodes[0])?, rig.attributes(nodes[1])?];
    equal(
        "cooperative",
        [true, false],
        told.map(|told| told.cooperative),
    )?;
    rig.replay(graph, stream)?;
    rig.element_is(data, 2)
}

pub(super) fn cluster_launch_says_so(rig: &Rig<'_>) -> Check {
    if !rig.has_clusters() {
        return Ok(());
    }
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.add_one_in(stream, plain().cluster([2, 1, 1]), Start::InOrder, data)?;
    let graph = rig.end(stream)?;
    let told = rig.attributes(rig.nodes(graph)?[0])?;
    equal("the cluster", [2, 1, 1], told.cluster)?;
    rig.replay(graph, stream)?;
    rig.element_is(data, 1)
}

pub(super) fn cluster_that_does_not_divide_the_grid_is_refused(rig: &Rig<'_>) -> Check {
    if !rig.has_clusters() {
        return Ok(());
    }
    let (stream, mut data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    let mut len = 4_u32;
    let mut params: [*mut c_void; 2] = [(&raw mut data).cast(), (&raw mut len).cast()];
    let shape = LaunchShape::from((3, 32)).cluster([2, 1, 1]);
    // SAFETY: the fixture's parameters; the memory is live.
    let launched =
        unsafe { (rig.driver).launch(stream, function, shape, Start::InOrder, &mut params) };
    match launched {
        Err(error)
            if matches!(
                error.class,
                ErrorClass::InvalidCluster | ErrorClass::InvalidValue
            ) =>
        {
            Ok(())
        }
        other => fails("the launch", ErrorClass::InvalidCluster, other),
    }
}

pub(super) fn priority_of_a_launch_is_its_own(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.add_one_in(stream, plain().priority(-1), Start::InOrder, data)?;
    rig.add_one_in(stream, plain(), Start::InOrder, data)?;
    let graph = rig.end(stream)?;
    let nodes = rig.nodes(graph)?;
    let told = [rig.attributes(nodes[0])?, rig.attributes(nodes[1])?];
    equal("the priorities", [-1, 0], told.map(|told| told.priority))?;
    rig.replay(graph, stream)?;
    rig.element_is(data, 2)
}

unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the cases pass a counter that outlives the call.
    let counter = unsafe { &*data.cast_const().cast::<AtomicU32>() };
    counter.fetch_add(1, Ordering::SeqCst);
}

pub(super) fn host_function_is_called_at_each_replay(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    let counter = AtomicU32::new(0);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    let call = HostCall {
        function: count,
        data: (&raw const counter).cast_mut().cast(),
    };
    // SAFETY: the counter lives until all replays have ended, below.
    unsafe { rig.driver.host_call(stream, call) }?;
    rig.fill(stream, data, 2)?;
    let graph = rig.end(stream)?;
    equal("calls under capture", 0, counter.load(Ordering::SeqCst))?;
    equal("the node", NodeKind::Host, rig.kinds(graph)?[1].clone())?;
    equal("the edges", vec![(0, 1), (1, 2)], rig.edges(graph)?)?;
    let exec = rig.instantiate(graph)?;
    for replays in 1..=3 {
        rig.launch(exec, stream)?;
        rig.synchronize(stream)?;
        equal("calls", replays, counter.load(Ordering::SeqCst))?;
    }
    rig.holds(data, 2)
}

pub(super) fn host_function_is_called_outside_a_capture(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    let counter = AtomicU32::new(0);
    let call = HostCall {
        function: count,
        data: (&raw const counter).cast_mut().cast(),
    };
    // SAFETY: the counter lives until the stream has been waited for.
    unsafe { rig.driver.host_call(stream, call) }?;
    rig.synchronize(stream)?;
    equal("calls", 1, counter.load(Ordering::SeqCst))
}

pub(super) fn update_changes_later_launches(rig: &Rig<'_>) -> Check {
    let (stream, a, b) = (rig.stream()?, rig.memory()?, rig.memory()?);
    let capture = |to: u64, value: u8| {
        rig.begin(stream)?;
        rig.fill(stream, to, value)?;
        rig.add_one(stream, rig.function()?, b, ELEMENTS)?;
        rig.end(stream)
    };
    let (first, second) = (capture(a, 1)?, capture(a, 5)?);
    let exec = rig.instantiate(first)?;
    rig.launch(exec, stream)?;
    // SAFETY: live handles, and nobody else uses them.
    unsafe { rig.driver.exec_update(exec, second) }?;
    rig.synchronize(stream)?;
    rig.holds(a, 1)?;
    rig.destroy_graph(second)?;
    rig.launch(exec, stream)?;
    rig.synchronize(stream)?;
    rig.holds(a, 5)?;
    rig.element_is(b, 2)
}

pub(super) fn update_with_other_nodes_is_refused(rig: &Rig<'_>) -> Check {
    let (stream, a, b) = (rig.stream()?, rig.memory()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, a, 1)?;
    rig.fill(stream, a, 3)?;
    let first = rig.end(stream)?;
    rig.begin(stream)?;
    rig.fill(stream, a, 5)?;
    let fewer = rig.end(stream)?;
    rig.begin(stream)?;
    rig.fill(stream, a, 5)?;
    rig.copy(stream, b, a)?;
    let other = rig.end(stream)?;
    let exec = rig.instantiate(first)?;
    for (what, graph) in [("fewer nodes", fewer), ("a node of another kind", other)] {
        // SAFETY: live handles, and nobody else uses them.
        let updated = unsafe { rig.driver.exec_update(exec, graph) };
        fails(what, ErrorClass::GraphUpdateRefused, updated)?;
    }
    rig.launch(exec, stream)?;
    rig.synchronize(stream)?;
    rig.holds(a, 3)
}
