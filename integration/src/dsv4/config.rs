//! The sizes of the model, and which layer is of which kind.

use std::fmt;
use std::str::FromStr;

use streamweir::kernels::layout::LatentFp8Pages;

/// Tokens of the model that share a page: the same page number means the same
/// tokens in every pool of a layer.
pub const PAGE_TOKENS: u32 = 256;
/// Tokens of the sliding window.
pub const WINDOW: u32 = 128;
/// Pages of the window pool that a sequence takes in turn: the window may begin
/// at the last token of a page.
pub(super) const WINDOW_PAGES: u32 = 2;
/// Dimensions of a head, which are those of a latent.
pub(super) const HEAD_DIM: u32 = LatentFp8Pages::DIM;
/// Dimensions of an index key.
pub(super) const INDEX_DIM: u32 = 128;
/// Added to the mean square in every norm.
pub(super) const EPSILON: f32 = 1e-6;

/// A model of the DeepSeek-V4 family, as far as decode attention goes.
///
/// The numbers of [`FLASH`](Self::FLASH) and [`PRO`](Self::PRO) are those of
/// the public model cards. Weights are random, and a small output head stands
/// for the vocabulary: what is looked at is where memory and streams meet, not
/// what the model says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// Width of the hidden state.
    pub hidden: u32,
    /// Layers.
    pub layers: u32,
    /// The kind of the first two layers, after which C4 and C128 take turns.
    pub first: LayerKind,
    /// Heads of the attention.
    pub heads: u32,
    /// Rank of the queries.
    pub q_lora: u32,
    /// Rank of the output, for each of its groups.
    pub o_lora: u32,
    /// Groups of heads with an output projection of their own.
    pub o_groups: u32,
    /// Heads of the indexer.
    pub index_heads: u32,
    /// Compressed entries that the indexer selects.
    pub top_k: u32,
    /// Tokens of the output head.
    pub vocabulary: u32,
    /// The longest sequence.
    pub max_context: u32,
}

impl Config {
    /// DeepSeek-V4 Flash.
    pub const FLASH: Self = Self {
        name: "flash",
        hidden: 4096,
        layers: 43,
        first: LayerKind::Window,
        heads: 64,
        q_lora: 1024,
        o_lora: 1024,
        o_groups: 8,
        index_heads: 64,
        top_k: 512,
        vocabulary: 4096,
        max_context: 81_920,
    };

    /// DeepSeek-V4 Pro.
    pub const PRO: Self = Self {
        name: "pro",
        hidden: 7168,
        layers: 61,
        first: LayerKind::C128,
        heads: 128,
        q_lora: 1536,
        o_lora: 1024,
        o_groups: 16,
        index_heads: 64,
        top_k: 1024,
        vocabulary: 4096,
        max_context: 81_920,
    };

    /// The same structure, small enough for the simulated device.
    pub const TINY: Self = Self {
        name: "tiny",
        hidden: 64,
        layers: 4,
        first: LayerKind::Window,
        heads: 2,
        q_lora: 32,
        o_lora: 16,
        o_groups: 1,
        index_heads: 8,
        top_k: 16,
        vocabulary: 64,
        max_context: 512,
    };

    /// All of them.
    pub const ALL: [Self; 3] = [Self::TINY, Self::FLASH, Self::PRO];

    /// The kind of a layer, by its number.
    pub const fn kind(&self, layer: u32) -> LayerKind {
        match layer {
            0 | 1 => self.first,
            layer if layer.is_multiple_of(2) => LayerKind::C4,
            _ => LayerKind::C128,
        }
    }

    /// Values of a token's queries, and of its attention before the output
    /// projection.
    pub(super) const fn query(&self) -> u32 {
        self.heads * HEAD_DIM
    }

    /// Values of the first projection of a token: the queries' rank, and the
    /// latent.
    pub(super) const fn qkv(&self) -> u32 {
        self.q_lora + HEAD_DIM
    }

    /// Values of a token's index queries.
    pub(super) const fn index_query(&self) -> u32 {
        self.index_heads * INDEX_DIM
    }

    /// Pages that the longest sequence takes.
    pub const fn table_stride(&self) -> u32 {
        self.max_context.div_ceil(PAGE_TOKENS)
    }
}

impl FromStr for Config {
    type Err = UnknownConfig;

    fn from_str(name: &str) -> Result<Self, UnknownConfig> {
        Self::ALL
            .into_iter()
            .find(|config| config.name == name)
            .ok_or_else(|| UnknownConfig(name.to_owned()))
    }
}

/// A name that is no model's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no model \"{0}\"; there are tiny, flash and pro")]
pub struct UnknownConfig(String);

/// What a layer attends to beside the sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Nothing.
    Window,
    /// Entries that stand for four tokens each, which an indexer selects.
    C4,
    /// All entries, which stand for 128 tokens each.
    C128,
}

/// The tokens that an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Tokens.
    pub tokens: usize,
    /// Whether an entry also takes in the tokens of the group before.
    pub overlaps: bool,
}

impl Group {
    /// Four tokens, and the four before.
    pub const C4: Self = Self {
        tokens: 4,
        overlaps: true,
    };
    /// 128 tokens.
    pub const C128: Self = Self {
        tokens: 128,
        overlaps: false,
    };

    /// Values that a compressor makes of a token for entries of `dim` channels.
    pub const fn outputs(self, dim: usize) -> usize {
        if self.overlaps { 2 * dim } else { dim }
    }
}

impl LayerKind {
    /// The tokens that an entry of such a layer stands for.
    pub const fn group(self) -> Option<Group> {
        match self {
            Self::Window => None,
            Self::C4 => Some(Group::C4),
            Self::C128 => Some(Group::C128),
        }
    }

    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::C4 => "c4",
            Self::C128 => "c128",
        }
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Which work overlaps the main stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Overlap {
    /// None: one stream.
    Off,
    /// The indexer, on one side stream.
    #[cfg_attr(feature = "clap", value(name = "indexer"))]
    IndexerOnly,
    /// The indexer on three side streams, the compressor and the store into the
    /// window on one each.
    Full,
}

impl Overlap {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::IndexerOnly, Self::Full];

    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::IndexerOnly => "indexer",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How index keys are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum IndexKeys {
    /// 256 bytes per token, no scale.
    Bf16,
    /// e4m3 with a scale per token, 132 bytes.
    Fp8,
}

impl IndexKeys {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
        }
    }
}

impl fmt::Display for IndexKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_published_layers() {
        let counts = |config: Config| {
            [LayerKind::Window, LayerKind::C4, LayerKind::C128].map(|kind| {
                let layers = 0..config.layers;
                layers.filter(|&layer| config.kind(layer) == kind).count()
            })
        };
        assert_eq!(counts(Config::FLASH), [2, 21, 20]);
        assert_eq!(counts(Config::PRO), [0, 30, 31]);
        for config in [Config::FLASH, Config::PRO] {
            assert_eq!(config.query() / config.o_groups, 4096);
        }
    }

    #[test]
    fn configurations_are_found_by_name() {
        assert_eq!("pro".parse(), Ok(Config::PRO));
        let error = "mega".parse::<Config>().unwrap_err().to_string();
        assert!(error.contains("mega") && error.contains("flash"), "{error}");
    }
}
