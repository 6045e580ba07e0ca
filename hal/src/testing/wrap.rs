//! What the wrapping drivers share: every method passed on to the driver
//! inside, with a hook around it.

use crate::driver::{
    Driver, DriverResult, DynDriver, GraphEdge, GraphHandle, NodeHandle, StreamHandle,
};

/// What a failure of a call must not undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Nothing: a call that fails has not been made.
    None,
    /// The call gives something back, and has to do so even when it fails.
    Release,
}

/// A driver around another driver. [`forward_driver!`] makes it one.
pub(super) trait Wrap {
    /// The driver inside.
    fn inner(&self) -> &DynDriver;

    /// Makes the call named `call`.
    fn around<R>(
        &self,
        call: &'static str,
        duty: Duty,
        make: impl FnOnce(&dyn Driver) -> DriverResult<R>,
    ) -> DriverResult<R> {
        let (_, _) = (call, duty);
        make(&**self.inner())
    }

    /// Ends a capture.
    ///
    /// # Safety
    /// As for [`CaptureCalls::capture_end`](crate::driver::CaptureCalls::capture_end).
    unsafe fn end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner().capture_end(stream) }
    }

    /// What the driver says that the nodes of a graph are.
    fn report_nodes(&self, nodes: Vec<NodeHandle>) -> Vec<NodeHandle> {
        nodes
    }

    /// What the driver says that the edges of a graph are.
    fn report_edges(&self, edges: Vec<GraphEdge>) -> Vec<GraphEdge> {
        edges
    }

    /// What the driver says that a node does.
    fn report_node(
        &self,
        _node: NodeHandle,
        kind: streamweir_trace::NodeKind,
    ) -> streamweir_trace::NodeKind {
        kind
    }
}

/// Implements [`Driver`] and its parts for a type that implements [`Wrap`].
//
// SAFETY of all six: every call that is made at all is made on the driver inside,
// unchanged, so the meaning of what runs is that driver's.
macro_rules! forward_driver {
    ($wrapper:ty) => {
        // SAFETY: as above.
        unsafe impl $crate::driver::Driver for $wrapper {
            fn info(&self) -> &$crate::driver::DeviceInfo {
                $crate::testing::wrap::Wrap::inner(self).info()
            }

            fn as_any(&self) -> &dyn ::std::any::Any {
                $crate::testing::wrap::Wrap::inner(self).as_any()
            }
        }

        // SAFETY: as above.
        unsafe impl $crate::driver::MemoryCalls for $wrapper {
            $crate::testing::wrap::forward_methods! {
                safe {
                    mem_alloc(bytes: u64) -> u64, None;
                    map_unit() -> Option<u64>, None;
                    range_reserve(bytes: u64) -> u64, None;
                    mem_range(address: u64) -> Option<::streamweir_trace::ByteRange>, None;
                    pointer(address: u64) -> Option<$crate::driver::Pointed>, None;
                    host_alloc(bytes: u64) -> *mut u8, None;
                }
                passed_on {
                    mem_free(address: u64) -> (), Release;
                    range_free(address: u64, bytes: u64) -> (), Release;
                    mem_map(address: u64, bytes: u64) -> (), None;
                    mem_unmap(address: u64, bytes: u64) -> (), Release;
                    host_free(address: *mut u8) -> (), Release;
                    copy_to_device(to: u64, from: &[u8]) -> (), None;
                    copy_to_host(to: &mut [u8], from: u64) -> (), None;
                    copy_async(stream: $crate::driver::StreamHandle, to: u64, from: u64, bytes: u64)
                        -> (), None;
                    fill_async(stream: $crate::driver::StreamHandle, to: u64, value: u8, bytes: u64)
                        -> (), None;
                }
            }
        }

        // SAFETY: as above.
        unsafe impl $crate::driver::StreamCalls for $wrapper {
            $crate::testing::wrap::forward_methods! {
                safe {
                    stream_create(priority: i32) -> $crate::driver::StreamHandle, None;
                    event_create(timing: bool) -> $crate::driver::EventHandle, None;
                }
                passed_on {
                    stream_destroy(stream: $crate::driver::StreamHandle) -> (), Release;
                    stream_synchronize(stream: $crate::driver::StreamHandle) -> (), None;
                    stream_query(stream: $crate::driver::StreamHandle) -> bool, None;
                    event_destroy(event: $crate::driver::EventHandle) -> (), Release;
                    event_record(
                        event: $crate::driver::EventHandle,
                        stream: $crate::driver::StreamHandle,
                        scope: $crate::driver::EventScope
                    ) -> (), None;
                    stream_wait(
                        stream: $crate::driver::StreamHandle,
                        event: $crate::driver::EventHandle,
                        scope: $crate::driver::EventScope
                    ) -> (), None;
                    event_query(event: $crate::driver::EventHandle) -> bool, None;
                    event_synchronize(event: $crate::driver::EventHandle) -> (), None;
                    event_elapsed(
                        start: $crate::driver::EventHandle,
                        end: $crate::driver::EventHandle
                    ) -> f32, None;
                    host_call(
                        stream: $crate::driver::StreamHandle,
                        call: $crate::driver::HostCall
                    ) -> (), None;
                }
            }
        }

        // SAFETY: as above.
        unsafe impl $crate::driver::CaptureCalls for $wrapper {
            fn capture_mode_exchange(
                &self,
                mode: $crate::driver::CaptureMode,
            ) -> $crate::driver::DriverResult<$crate::driver::CaptureMode> {
                $crate::testing::wrap::Wrap::inner(self).capture_mode_exchange(mode)
            }

            unsafe fn capture_end(
                &self,
                stream: $crate::driver::StreamHandle,
            ) -> $crate::driver::DriverResult<$crate::driver::GraphHandle> {
                // SAFETY: the caller's promise, passed on.
                unsafe { $crate::testing::wrap::Wrap::end(self, stream) }
            }

            $crate::testing::wrap::forward_methods! {
                safe {
                }
                passed_on {
                    capture_begin(
                        stream: $crate::driver::StreamHandle,
                        mode: $crate::driver::CaptureMode
                    ) -> (), None;
                    capture_info(
                        stream: $crate::driver::StreamHandle,
                        frontier: &mut Vec<$crate::driver::NodeHandle>
                    ) -> $crate::driver::CaptureInfo, None;
                }
            }
        }

        // SAFETY: as above.
        unsafe impl $crate::driver::GraphCalls for $wrapper {
            unsafe fn graph_nodes(
                &self,
                graph: $crate::driver::GraphHandle,
            ) -> $crate::driver::DriverResult<Vec<$crate::driver::NodeHandle>> {
                use $crate::testing::wrap::{Duty, Wrap};
                self.around("graph_nodes", Duty::None, |inner| {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { inner.graph_nodes(graph) }
                })
                .map(|nodes| self.report_nodes(nodes))
            }

            unsafe fn graph_edges(
                &self,
                graph: $crate::driver::GraphHandle,
            ) -> $crate::driver::DriverResult<Vec<$crate::driver::GraphEdge>> {
                use $crate::testing::wrap::{Duty, Wrap};
                self.around("graph_edges", Duty::None, |inner| {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { inner.graph_edges(graph) }
                })
                .map(|edges| self.report_edges(edges))
            }

            unsafe fn graph_node(
                &self,
                node: $crate::driver::NodeHandle,
            ) -> $crate::driver::DriverResult<::streamweir_trace::NodeKind> {
                use $crate::testing::wrap::{Duty, Wrap};
                self.around("graph_node", Duty::None, |inner| {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { inner.graph_node(node) }
                })
                .map(|kind| self.report_node(node, kind))
            }

            $crate::testing::wrap::forward_methods! {
                safe {
                }
                passed_on {
                    graph_child(node: $crate::driver::NodeHandle)
                        -> $crate::driver::GraphHandle, None;
                    graph_attributes(node: $crate::driver::NodeHandle)
                        -> $crate::driver::KernelAttributes, None;
                    graph_alone(node: $crate::driver::NodeHandle)
                        -> $crate::driver::GraphHandle, None;
                    graph_add_child(
                        graph: $crate::driver::GraphHandle,
                        after: &[$crate::driver::NodeHandle],
                        child: $crate::driver::GraphHandle
                    ) -> $crate::driver::NodeHandle, None;
                    graph_retain(
                        graph: $crate::driver::GraphHandle,
                        keep: Box<dyn ::std::any::Any + Send + Sync>
                    ) -> (), None;
                    graph_destroy(graph: $crate::driver::GraphHandle) -> (), Release;
                    graph_instantiate(graph: $crate::driver::GraphHandle)
                        -> $crate::driver::ExecHandle, None;
                    exec_launch(
                        exec: $crate::driver::ExecHandle,
                        stream: $crate::driver::StreamHandle
                    ) -> (), None;
                    exec_upload(
                        exec: $crate::driver::ExecHandle,
                        stream: $crate::driver::StreamHandle
                    ) -> (), None;
                    exec_enable(
                        exec: $crate::driver::ExecHandle,
                        node: $crate::driver::NodeHandle,
                        enabled: bool
                    ) -> (), None;
                    exec_update(
                        exec: $crate::driver::ExecHandle,
                        graph: $crate::driver::GraphHandle
                    ) -> (), None;
                    exec_destroy(exec: $crate::driver::ExecHandle) -> (), Release;
                }
            }
        }

        // SAFETY: as above.
        unsafe impl $crate::driver::ModuleCalls for $wrapper {
            $crate::testing::wrap::forward_methods! {
                safe {
                    module_load(image: &$crate::driver::ModuleImage)
                        -> $crate::driver::ModuleHandle, None;
                }
                passed_on {
                    module_unload(module: $crate::driver::ModuleHandle) -> (), Release;
                    module_function(module: $crate::driver::ModuleHandle, symbol: &str)
                        -> $crate::driver::FunctionHandle, None;
                    function_params(function: $crate::driver::FunctionHandle)
                        -> Vec<$crate::driver::ParamSlot>, None;
                    function_target(function: $crate::driver::FunctionHandle)
                        -> (u32, u32), None;
                    function_shared_limit(function: $crate::driver::FunctionHandle, bytes: u32)
                        -> (), None;
                    launch(
                        stream: $crate::driver::StreamHandle,
                        function: $crate::driver::FunctionHandle,
                        shape: $crate::driver::LaunchShape,
                        start: $crate::driver::Start,
                        params: &mut [*mut ::std::ffi::c_void]
                    ) -> (), None;
                }
            }
        }
    };
}

macro_rules! forward_methods {
    (
        safe { $($safe:ident($($safe_arg:ident: $safe_ty:ty),*) -> $safe_out:ty, $safe_duty:ident;)* }
        passed_on { $($name:ident($($arg:ident: $ty:ty),*) -> $out:ty, $duty:ident;)* }
    ) => {
        $(fn $safe(&self, $($safe_arg: $safe_ty),*) -> $crate::driver::DriverResult<$safe_out> {
            use $crate::testing::wrap::{Duty, Wrap};
            self.around(stringify!($safe), Duty::$safe_duty, |inner| inner.$safe($($safe_arg),*))
        })*
        $(unsafe fn $name(&self, $($arg: $ty),*) -> $crate::driver::DriverResult<$out> {
            use $crate::testing::wrap::{Duty, Wrap};
            self.around(stringify!($name), Duty::$duty, |inner| {
                // SAFETY: the caller's promise, passed on.
                unsafe { inner.$name($($arg),*) }
            })
        })*
    };
}

pub(super) use {forward_driver, forward_methods};
