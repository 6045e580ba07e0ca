//! Where a declaration, the code and the arguments of a kernel disagree.

use thiserror::Error;

use crate::kernel::Refusal;

/// A kernel that is bound or launched otherwise than it is declared.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The compiled kernel does not have as many parameters as declared.
    #[error(
        "kernel `{kernel}` is declared with {declared} parameters, but its code takes {actual}"
    )]
    ParamCount {
        /// The declaration.
        kernel: String,
        /// Parameters of the declaration.
        declared: usize,
        /// Parameters of the code.
        actual: usize,
    },

    /// A parameter of the compiled kernel is elsewhere or of another size.
    #[error(
        "parameter `{param}` of kernel `{kernel}` is declared with {declared_size} bytes at offset {declared_offset}, but its code takes {actual_size} bytes at offset {actual_offset}"
    )]
    ParamShape {
        /// The kernel.
        kernel: String,
        /// The parameter.
        param: String,
        /// Declared size in bytes.
        declared_size: u32,
        /// Declared offset in bytes.
        declared_offset: u32,
        /// Size in the code.
        actual_size: u32,
        /// Offset in the code.
        actual_offset: u32,
    },

    /// A parameter that the code takes as a pointer to constants is declared as
    /// written.
    #[error(
        "parameter `{param}` of kernel `{kernel}` is declared as {declared}, but the kernel's name says that it is a pointer to const; declare it `In`"
    )]
    ConstParam {
        /// The kernel.
        kernel: String,
        /// The parameter.
        param: String,
        /// How it is declared.
        declared: streamweir_trace::AccessMode,
    },

    /// Arguments that a kernel does not take.
    #[error("kernel {kernel}: {why}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// What its check says.
        #[source]
        why: Refusal,
    },

    /// Two arguments with bytes in common, of which the kernel writes one.
    #[error(
        "kernel {kernel}: `{first}` and `{second}` are given bytes in common, and the kernel writes \
         one of them; give them apart, or say in the declaration that they may be the same: \
         `#[in_place({first}, {second})]`"
    )]
    SharedBytes {
        /// The kernel.
        kernel: String,
        /// One parameter.
        first: String,
        /// The other.
        second: String,
    },

    /// Blocks in clusters that the grid or the device does not allow.
    #[error("kernel {kernel}: clusters of {cluster:?} blocks in a grid of {grid:?}: {why}")]
    Cluster {
        /// The kernel.
        kernel: String,
        /// Blocks of a cluster along x, y, z.
        cluster: [u32; 3],
        /// Blocks of the grid along x, y, z.
        grid: [u32; 3],
        /// What is wrong, and what to do.
        why: &'static str,
    },
}
