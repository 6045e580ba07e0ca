//! Where tensors come from.

use safetensors::Dtype;

use super::bytes::Bytes;

/// A tensor as it is stored.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The type of its elements. Two codes of e2m1 are one element of a byte.
    pub dtype: Dtype,
    /// Its sizes, the slowest first.
    pub shape: Vec<usize>,
    /// Its elements, little-endian, row after row.
    pub bytes: Bytes,
}

/// Tensors by their names on the hub: files, or a generator.
pub trait Source {
    /// The tensor of a name, if there is one. `shape` and `dtypes` are what it has to
    /// have: a generator makes it so, and what a file has otherwise is found by who
    /// asks.
    fn tensor(&mut self, name: &str, shape: &[usize], dtypes: &[Dtype]) -> Option<Tensor>;
}
