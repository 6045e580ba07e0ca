//! The files of a checkpoint, mapped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::bytes::Bytes;
use super::error::{CheckpointError, TensorFault};
use super::source::{Source, Tensor};

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
/// What the names of layers for multi-token prediction begin with.
const PREDICTION: &str = "mtp.";

/// All tensors of a checkpoint's files, by name.
#[derive(Debug)]
pub struct Shards {
    tensors: BTreeMap<String, Stored>,
    /// Found while the files were opened.
    faults: Vec<TensorFault>,
}

#[derive(Debug)]
struct Stored {
    tensor: Tensor,
    shard: Arc<str>,
    taken: bool,
}

/// What nobody asked for, and what is wrong with the files.
pub(super) struct Rest {
    pub(super) faults: Vec<TensorFault>,
    /// Tensors of layers for multi-token prediction.
    pub(super) left_out: usize,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Shards {
    /// Maps the files of a folder: those that its list names, or the only one.
    /// `opened` is told how many of them are open, of how many.
    ///
    /// # Errors
    /// When a file cannot be read or has no valid header, or was saved by
    /// transformers.
    pub fn open(
        folder: &Path,
        mut opened: impl FnMut(usize, usize),
    ) -> Result<Self, CheckpointError> {
        let path = folder.join(INDEX);
        let index = match fs::read_to_string(&path) {
            Ok(text) => Some(parse_index(&path, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(CheckpointError::Io { path, source }),
        };
        let names: BTreeSet<&str> = match &index {
            Some(index) => index.weight_map.values().map(String::as_str).collect(),
            None => [SINGLE].into(),
        };
        let mut shards = Self {
            tensors: BTreeMap::new(),
            faults: Vec::new(),
        };
        for (done, name) in names.iter().enumerate() {
            shards.add(&folder.join(name), name)?;
            opened(done + 1, names.len());
        }
        for (name, shard) in index.into_iter().flat_map(|index| index.weight_map) {
            let found = shards.tensors.get(&name);
            if found.is_none_or(|found| *found.shard != *shard) {
                shards.faults.push(TensorFault::Misplaced { name, shard });
            }
        }
        Ok(shards)
    }

    /// Tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Adds the tensors of a file.
    fn add(&mut self, path: &Path, name: &str) -> Result<(), CheckpointError> {
        let file = Arc::new(map(path)?);
        let shard: Arc<str> = name.into();
        let (header, metadata) =
            SafeTensors::read_metadata(&file).map_err(|source| CheckpointError::Shard {
                path: path.to_owned(),
                source,
            })?;
        // Its length stands before it.
        let data = header + size_of::<u64>();
        for (name, info) in metadata.tensors() {
            if is_of_transformers(&name) {
                return Err(CheckpointError::SavedByTransformers {
                    path: path.to_owned(),
                    name,
                });
            }
            let (from, to) = info.data_offsets;
            let Some(bytes) = Bytes::mapped(&file, data + from..data + to) else {
                // The header's offsets were checked against the file's length.
                return Err(CheckpointError::Shard {
                    path: path.to_owned(),
                    source: safetensors::SafeTensorError::InvalidOffset(name),
                });
            };
            let found = Stored {
                tensor: Tensor {
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                    bytes,
                },
                shard: Arc::clone(&shard),
                taken: false,
            };
            if let Some(other) = self.tensors.insert(name.clone(), found) {
                self.faults.push(TensorFault::Twice {
                    name,
                    shards: [other.shard.to_string(), shard.to_string()],
                });
            }
        }
        Ok(())
    }

    /// What is left when a model has asked for all that it has.
    pub(super) fn rest(self) -> Rest {
        let mut rest = Rest {
            faults: self.faults,
            left_out: 0,
        };
        for (name, found) in self.tensors {
            if name.starts_with(PREDICTION) {
                rest.left_out += 1;
            } else if !found.taken {
                let shard = found.shard.to_string();
                rest.faults.push(TensorFault::Extra { name, shard });
            }
        }
        rest
    }
}

impl Source for Shards {
    fn tensor(&mut self, name: &str, _shape: &[usize], _dtypes: &[Dtype]) -> Option<Tensor> {
        let found = self.tensors.get_mut(name)?;
        found.taken = true;
        Some(found.tensor.clone())
    }
}

fn parse_index(path: &Path, text: &str) -> Result<Index, CheckpointError> {
    let index: Index = serde_json::from_str(text).map_err(|source| CheckpointError::Index {
        path: path.to_owned(),
        source,
    })?;
    for shard in index.weight_map.values() {
        // A list from elsewhere must not make us read elsewhere.
        if Path::new(shard).file_name() != Some(shard.as_ref()) {
            return Err(CheckpointError::ShardName {
                path: path.to_owned(),
                shard: shard.clone(),
            });
        }
    }
    Ok(index)
}

/// Names that transformers gives to what it loads, and the hub to nothing.
fn is_of_transformers(name: &str) -> bool {
    name.starts_with("model.")
        || name.starts_with("lm_head.")
        || name.contains(".self_attn.")
        || name.contains(".mlp.")
}

fn map(path: &Path) -> Result<Mmap, CheckpointError> {
    let io = |source| CheckpointError::Io {
        path: PathBuf::from(path),
        source,
    };
    let file = File::open(path).map_err(io)?;
    // SAFETY: the map is read-only, and what is read of it is numbers that may have any
    // value, or is checked after it was copied; but for the header, which is parsed in
    // place before this function's caller returns. What remains is that nobody shortens
    // or changes the file while it is in use: `Checkpoint::open` asks for that, as every
    // reader of mapped files has to.
    unsafe { Mmap::map(&file) }.map_err(io)
}
