//! Handles and the plain values that driver calls take and return.

use std::ffi::c_void;
use std::fmt;

use streamweir_trace::{ByteRange, EdgeKind};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

handle!(
    /// A stream of the driver. Zero is CUDA's legacy default stream.
    StreamHandle
);
handle!(
    /// An event of the driver.
    EventHandle
);
handle!(
    /// A graph of the driver.
    GraphHandle
);
handle!(
    /// A node of a graph of the driver.
    NodeHandle
);
handle!(
    /// An instantiated graph of the driver.
    ExecHandle
);
handle!(
    /// A loaded module of the driver.
    ModuleHandle
);
handle!(
    /// A kernel of a loaded module.
    FunctionHandle
);

/// Which driver a device belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// A GPU, through the CUDA driver.
    Cuda,
    /// The simulated device.
    Sim,
    /// A driver that streamweir does not know, by the name that it gives itself.
    Other(&'static str),
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::Sim => "sim",
            Self::Other(name) => name,
        })
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The driver that it belongs to.
    pub backend: Backend,
    /// The device's number in its backend.
    pub ordinal: u32,
    /// The product name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor; `(0, 0)` on the simulated device.
    pub capability: (u32, u32),
    /// The driver's CUDA version as CUDA encodes it (12080 is 12.8); 0 on the
    /// simulated device.
    pub driver_version: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Device memory in bytes.
    pub memory: u64,
}

/// A CUDA version, written the way people do: 12080 is `12.8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(pub u32);

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Which other calls a capture forbids, as CUDA defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// Potentially unsafe calls are forbidden to every thread.
    Global,
    /// Potentially unsafe calls are forbidden to the capturing thread.
    ThreadLocal,
    /// No call is forbidden that does not touch a capturing stream.
    Relaxed,
}

/// Whether an event belongs to a capture or to the world outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventScope {
    /// The event orders streams inside one capture, or outside any.
    Internal,
    /// The event orders a captured stream against work outside the graph, at
    /// every replay.
    External,
}

/// The state of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureStatus {
    /// The stream is not capturing.
    None,
    /// The stream is capturing.
    Active,
    /// The stream was capturing until a call broke the capture.
    Invalidated,
}

/// How a stream takes part in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// The state.
    pub status: CaptureStatus,
    /// The driver's number of the capture; 0 when the stream is not capturing.
    pub id: u64,
    /// The graph under construction. It belongs to the capture: it may be read
    /// and retained, not destroyed.
    pub graph: Option<GraphHandle>,
}

/// An edge of a driver's graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphEdge {
    /// The node that comes first.
    pub from: NodeHandle,
    /// The node that follows.
    pub to: NodeHandle,
    /// What the edge promises.
    pub kind: EdgeKind,
}

/// Where a kernel expects one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamSlot {
    /// Offset in the parameter buffer, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// How many blocks of how many threads a launch starts, and in what bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchShape {
    /// Thread blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster along x, y, z, which the device runs together; all zero for
    /// what the kernel was compiled with, or none.
    pub cluster: [u32; 3],
    /// The priority, where it is not that of the stream; a lower number is a higher one.
    pub priority: Option<i32>,
}

/// When a kernel may start, relative to the work that it follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// When that work has ended.
    #[default]
    InOrder,
    /// Programmatic dependent launch: when every block of the kernels among that
    /// work has begun and said so, or has ended. What else it follows has ended.
    ///
    /// A capture makes the edges from kernels, those of other streams that are
    /// waited for included, [programmatic](streamweir_trace::EdgeKind::Programmatic);
    /// an edge from anything else stays a full one.
    Early,
    /// A cooperative launch: when that work has ended, and the device has room for all
    /// blocks at once. One that it can never have room for is refused.
    Together,
}

/// A function of the host, as a stream calls it.
#[derive(Clone, Copy, Debug)]
pub struct HostCall {
    /// What is called, with `data`.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// What it is called with.
    pub data: *mut c_void,
}

// SAFETY: both are addresses; whoever enqueues the call promises that it may be made on
// any thread.
unsafe impl Send for HostCall {}
// SAFETY: as above.
unsafe impl Sync for HostCall {}

/// How a kernel node is launched, beyond its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KernelAttributes {
    /// Whether the device runs all blocks of the launch together or none.
    pub cooperative: bool,
    /// Blocks of a cluster along x, y, z; all zero when the node asks for none.
    pub cluster: [u32; 3],
    /// The priority; a lower number is a higher one.
    pub priority: i32,
    /// Whether kernels may change the node on the device, so that what it is at
    /// a replay is not what a graph says it is.
    pub device_updatable: bool,
}

/// The memory that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointed {
    /// All of the allocation.
    pub range: ByteRange,
    /// Whether it is memory of a device. Page-locked host memory is not, though
    /// kernels may reach it.
    pub device: bool,
}

impl From<(u32, u32)> for LaunchShape {
    /// Blocks and threads along x.
    fn from((blocks, threads): (u32, u32)) -> Self {
        ([blocks, 1, 1], [threads, 1, 1]).into()
    }
}

impl From<([u32; 3], [u32; 3])> for LaunchShape {
    /// Blocks and threads along x, y, z.
    fn from((grid, block): ([u32; 3], [u32; 3])) -> Self {
        Self {
            grid,
            block,
            shared_bytes: 0,
            cluster: [0; 3],
            priority: None,
        }
    }
}

impl LaunchShape {
    /// The same shape with `bytes` bytes of dynamic shared memory per block.
    #[must_use]
    pub const fn shared(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// The same shape in clusters of so many blocks along x, y, z, which divide the grid.
    #[must_use]
    pub const fn cluster(mut self, blocks: [u32; 3]) -> Self {
        self.cluster = blocks;
        self
    }

    /// The same shape with a priority of its own, whatever that of the stream is. A
    /// lower number is a higher priority; out of range is clamped.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}
