//! The layout of the caches as a file, for who else reads or writes them.
//!
//! An engine that fills the caches (a prefill, a tier below) and the kernels here
//! must mean the same bytes. So what decides where an entry lies can be written
//! down and compared: a file of another layout is refused before a kernel would
//! read scales where there are values.

use serde::{Deserialize, Serialize};
use streamweir::kernels::layout::{LayoutError, PageLayout};
use thiserror::Error;

use super::config::{IndexKeys, PAGE_TOKENS, WINDOW, WINDOW_PAGES};
use super::geometry::{
    C4_ROWS, C4_VALUES, C128_ROWS, C128_VALUES, Geometry, INDEX_VALUES, KeyPages,
};

/// Where entries lie in the caches of a layer, whatever their sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLayout {
    /// Tokens of the model that share a page.
    pub page_tokens: u32,
    /// Tokens of the sliding window, and pages that it takes in turn.
    pub window: [u32; 2],
    /// The paged pools.
    pub pools: Vec<PoolLayout>,
    /// The state rings.
    pub rings: Vec<RingLayout>,
}

/// A paged pool: in each page the values of all entries, then their scales.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLayout {
    /// The pool.
    pub name: String,
    /// Entries of a page.
    pub entries_per_page: u32,
    /// Bytes of an entry's values.
    pub value_bytes: u32,
    /// Bytes of an entry's scales.
    pub scale_bytes: u32,
    /// Where the scales of a page begin.
    pub scale_offset: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// The rings of a compressor, of f32.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingLayout {
    /// The rings.
    pub name: String,
    /// Rows of a sequence's ring.
    pub rows: u32,
    /// Values of a row.
    pub values: u32,
}

/// Why a layout file does not serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LayoutFileError {
    /// It is no layout at all.
    #[error("the layout file cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of other caches.
    #[error(
        "the layout file has {file} for {what}, and the caches here have {here}; make both with one \
         format of index keys and one release, or convert the caches"
    )]
    Mismatch {
        /// What differs, with the name of the pool or ring.
        what: String,
        /// What the file says.
        file: String,
        /// What the caches have.
        here: String,
    },
    /// The layout here cannot be had.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl CacheLayout {
    /// The layout with index keys of a format.
    ///
    /// # Errors
    /// When no pool has that layout.
    pub fn new(keys: IndexKeys) -> Result<Self, LayoutFileError> {
        // Sizes do not matter for where an entry lies in its page.
        let geometry = Geometry::new(keys, 1, 2)?;
        let keys = match &geometry.keys {
            KeyPages::Bf16(pages) => PoolLayout::of("index keys", pages.layout()),
            KeyPages::Fp8(pages) => PoolLayout::of("index keys", pages.layout()),
        };
        let ring = |name: &str, rows, values| RingLayout {
            name: name.to_owned(),
            rows,
            values,
        };
        Ok(Self {
            page_tokens: PAGE_TOKENS,
            window: [WINDOW, WINDOW_PAGES],
            pools: vec![
                PoolLayout::of("window", geometry.window.layout()),
                PoolLayout::of("c4 latents", geometry.c4.layout()),
                PoolLayout::of("c128 latents", geometry.c128.layout()),
                keys,
            ],
            rings: vec![
                ring("c4 rings", C4_ROWS, C4_VALUES),
                ring("index key rings", C4_ROWS, INDEX_VALUES),
                ring("c128 rings", C128_ROWS, C128_VALUES),
            ],
        })
    }

    /// The file.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, LayoutFileError> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Refuses a file of another layout.
    ///
    /// # Errors
    /// When it is no layout, or which part of it is another one.
    pub fn check(&self, file: &str) -> Result<(), LayoutFileError> {
        let file: Self = serde_json::from_str(file)?;
        self.compare("tokens of a page", &file.page_tokens, &self.page_tokens)?;
        let window = "tokens of the window and its pages";
        self.compare(window, &file.window, &self.window)?;
        let names = |layout: &Self| {
            let pools = layout.pools.iter().map(|pool| pool.name.clone());
            let rings = layout.rings.iter().map(|ring| ring.name.clone());
            pools.chain(rings).collect::<Vec<_>>()
        };
        self.compare("the names of pools and rings", &names(&file), &names(self))?;
        for (theirs, ours) in file.pools.iter().zip(&self.pools) {
            self.compare(&format!("pool \"{}\"", ours.name), theirs, ours)?;
        }
        for (theirs, ours) in file.rings.iter().zip(&self.rings) {
            self.compare(&format!("\"{}\"", ours.name), theirs, ours)?;
        }
        Ok(())
    }

    fn compare<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        file: &T,
        here: &T,
    ) -> Result<(), LayoutFileError> {
        if file == here {
            return Ok(());
        }
        Err(LayoutFileError::Mismatch {
            what: what.to_owned(),
            file: format!("{file:?}"),
            here: format!("{here:?}"),
        })
    }
}

impl PoolLayout {
    fn of(name: &str, layout: &PageLayout) -> Self {
        Self {
            name: name.to_owned(),
            entries_per_page: layout.tokens_per_page(),
            value_bytes: layout.value_bytes(),
            scale_bytes: layout.scale_bytes(),
            scale_offset: layout.scale_offset(),
            page_bytes: layout.page_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_layout_is_refused_by_name() {
        let bf16 = CacheLayout::new(IndexKeys::Bf16).unwrap();
        let fp8 = CacheLayout::new(IndexKeys::Fp8).unwrap();
        bf16.check(&bf16.to_json().unwrap()).unwrap();
        fp8.check(&fp8.to_json().unwrap()).unwrap();
        let error = bf16.check(&fp8.to_json().unwrap()).unwrap_err().to_string();
        assert!(error.contains("\"index keys\""), "{error}");

        let mut other = bf16.clone();
        other.pools[1].scale_offset += 1;
        let error = bf16.check(&other.to_json().unwrap()).unwrap_err();
        let LayoutFileError::Mismatch { what, file, here } = &error else {
            panic!("{error}");
        };
        assert_eq!(what, "pool \"c4 latents\"");
        assert!(file != here && file.contains("scale_offset"), "{file}");
        let mut other = bf16.clone();
        other.rings[2].rows = 64;
        let error = bf16.check(&other.to_json().unwrap()).unwrap_err();
        assert!(error.to_string().contains("\"c128 rings\""), "{error}");
        other.rings.pop();
        let error = bf16.check(&other.to_json().unwrap()).unwrap_err();
        assert!(error.to_string().contains("names"), "{error}");
        for text in ["", "{}", "{\"page_tokens\": 256, \"more\": 1}"] {
            let error = bf16.check(text).unwrap_err();
            assert!(matches!(error, LayoutFileError::Json(_)), "{text}: {error}");
        }
    }
}
