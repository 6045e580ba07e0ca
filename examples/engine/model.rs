//! The model: its sizes, its weights, and where they lie on the device.

use half::bf16;
use streamweir::{Device, Persistent};

use super::kernels::{CONTEXT, PAGE};

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub layers: u32,
    pub hidden: u32,
    pub heads: u32,
    pub kv_heads: u32,
    /// Values of a head.
    pub width: u32,
    /// Inner values of the expert of each token, and of the one that all share.
    pub inner: u32,
    pub shared: u32,
    pub vocab: u32,
}

impl Config {
    /// For the simulated device.
    pub const SMALL: Self = Self {
        layers: 2,
        hidden: 32,
        heads: 4,
        kv_heads: 2,
        width: 8,
        inner: 48,
        shared: 32,
        vocab: 96,
    };
    /// For a GPU.
    pub const LARGE: Self = Self {
        layers: 4,
        hidden: 1024,
        heads: 16,
        kv_heads: 4,
        width: 64,
        inner: 2048,
        shared: 2048,
        vocab: 8192,
    };

    /// Values of a row of `qkv`, and of a token in the cache of keys.
    pub fn qkv(&self) -> u32 {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    pub fn cached(&self) -> u32 {
        self.kv_heads * self.width
    }
}

/// The weights of a layer, as matrices `M` and vectors `V`.
#[derive(Debug)]
pub struct Layer<M, V> {
    pub norm: V,
    pub qkv: M,
    pub out: M,
    pub mlp_norm: V,
    pub gate_up: M,
    pub down: M,
    pub shared_gate_up: M,
    pub shared_down: M,
}

/// The weights of a model.
#[derive(Debug)]
pub struct Weights<M, V> {
    pub embedding: M,
    pub layers: Vec<Layer<M, V>>,
    pub norm: V,
    pub head: M,
}

/// The weights on the host.
pub type OnHost = Weights<Vec<bf16>, Vec<f32>>;
/// The weights on the device.
pub type OnDevice = Weights<Persistent<bf16>, Persistent<f32>>;

impl OnHost {
    /// Some weights; the same for the same seed.
    pub fn random(config: &Config, seed: u64) -> Self {
        let mut state = seed | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        // Rows of a matrix have sums of squares of about one.
        let mut matrix = |rows: u32, columns: u32| -> Vec<bf16> {
            let scale = (3.0 / columns as f32).sqrt();
            let value = |_| bf16::from_f32(next() * scale);
            (0..rows * columns).map(value).collect()
        };
        let c = *config;
        let ones = || vec![1.0; c.hidden as usize];
        Self {
            embedding: matrix(c.vocab, c.hidden),
            layers: (0..c.layers)
                .map(|_| Layer {
                    norm: ones(),
                    qkv: matrix(c.qkv(), c.hidden),
                    out: matrix(c.hidden, c.heads * c.width),
                    mlp_norm: ones(),
                    gate_up: matrix(2 * c.inner, c.hidden),
                    down: matrix(c.hidden, c.inner),
                    shared_gate_up: matrix(2 * c.shared, c.hidden),
                    shared_down: matrix(c.hidden, c.shared),
                })
                .collect(),
            norm: ones(),
            head: matrix(c.vocab, c.hidden),
        }
    }

    // begin: docs/guide.md, weights
    /// The weights as persistent buffers: registered once, by names that reports
    /// print, and kept alive by every graph that touches them.
    pub fn upload(&self, device: &Device) -> streamweir::Result<OnDevice> {
        let matrix = |name: &str, values: &Vec<bf16>| device.persistent_from(name, values);
        let vector = |name: &str, values: &Vec<f32>| device.persistent_from(name, values);
        let layer = |(at, layer): (usize, &Layer<Vec<bf16>, Vec<f32>>)| {
            let name = |part: &str| format!("layer {at}/{part}");
            Ok(Layer {
                norm: vector(&name("norm"), &layer.norm)?,
                qkv: matrix(&name("qkv"), &layer.qkv)?,
                out: matrix(&name("out"), &layer.out)?,
                mlp_norm: vector(&name("mlp norm"), &layer.mlp_norm)?,
                gate_up: matrix(&name("gate up"), &layer.gate_up)?,
                down: matrix(&name("down"), &layer.down)?,
                shared_gate_up: matrix(&name("shared gate up"), &layer.shared_gate_up)?,
                shared_down: matrix(&name("shared down"), &layer.shared_down)?,
            })
        };
        // end: docs/guide.md, weights
        Ok(Weights {
            embedding: matrix("embedding", &self.embedding)?,
            layers: (self.layers.iter().enumerate())
                .map(layer)
                .collect::<streamweir::Result<_>>()?,
            norm: vector("norm", &self.norm)?,
            head: matrix("head", &self.head)?,
        })
    }
}

/// Cosine and sine of each pair of a head at each position.
pub fn angles(config: &Config) -> Vec<f32> {
    let pair = |position: u32, pair: u32| {
        let turn = 10_000_f64.powf(-2.0 * f64::from(pair) / f64::from(config.width));
        let angle = f64::from(position) * turn;
        [angle.cos() as f32, angle.sin() as f32]
    };
    let pairs = config.width / 2;
    (0..CONTEXT * pairs)
        .flat_map(|at| pair(at / pairs, at % pairs))
        .collect()
}

/// The paged cache of a model: for each layer the keys and the values of all pages.
pub struct Cache {
    pub pages: u32,
    pub layers: Vec<[Persistent<bf16>; 2]>,
}

impl Cache {
    pub fn new(device: &Device, config: &Config, pages: u32) -> streamweir::Result<Self> {
        let values = (pages * PAGE * config.cached()) as usize;
        let layer = |at: u32| {
            let buffer = |what: &str| device.persistent(&format!("layer {at}/{what}"), values);
            Ok([buffer("keys")?, buffer("values")?])
        };
        let layers = (0..config.layers).map(layer);
        Ok(Self {
            pages,
            layers: layers.collect::<streamweir::Result<_>>()?,
        })
    }

    /// Bytes of a page, in all layers.
    pub const fn page_bytes(config: &Config) -> u64 {
        let values = config.layers * PAGE * config.kv_heads * config.width;
        2 * values as u64 * size_of::<bf16>() as u64
    }
}
