//! Weights and prompts by a seed: the same bytes as `integration/reference/generator.py`
//! makes, whose words these are.

use serde_json::Value;
use streamweir_integration::dsv4::checkpoint::{Dtype, ModelConfig, Source, Tensor, Weights};

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A model whose weights are generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generated {
    /// The name of its goldens.
    pub(crate) name: &'static str,
    /// The seed of its weights and prompts.
    pub(crate) seed: u64,
    /// The text of its `config.json`.
    pub(crate) config: &'static str,
}

/// Flash's schedule and formats: window, C4 and C128 layers, e4m3 with ue8m0 scales,
/// e2m1 experts, two hash layers.
pub(crate) const FLASH: Generated = Generated {
    name: "flash",
    seed: 6,
    config: include_str!("../../reference/models/flash/config.json"),
};
/// Pro's schedule and Flash-Base's formats: e4m3 with f32 scales, experts too; blocks in
/// both directions.
pub(crate) const BASE: Generated = Generated {
    name: "base",
    seed: 3,
    config: include_str!("../../reference/models/base.json"),
};
/// Nothing quantised, other dimensions, `layer_types`, no hash layer, two streams.
pub(crate) const BF16: Generated = Generated {
    name: "bf16",
    seed: 10,
    config: include_str!("../../reference/models/bf16.json"),
};
pub(crate) const ALL: [Generated; 3] = [FLASH, BASE, BF16];

/// What is done to a tensor before the model gets it.
pub(crate) type Change = fn(name: &str, tensor: &mut Tensor);

impl Generated {
    pub(crate) fn weights(self) -> Weights {
        self.changed(|_| {}, |_, _| {})
    }

    /// The same with another configuration, or other weights.
    pub(crate) fn changed(self, edit: fn(&mut Value), change: Change) -> Weights {
        let mut json: Value = serde_json::from_str(self.config).unwrap();
        edit(&mut json);
        let config = ModelConfig::parse(&json.to_string()).unwrap();
        let mut generator = Generator::new(self.seed, &json, change);
        Weights::read(&config, &mut generator, || {}).unwrap()
    }

    /// The prompt of a length.
    pub(crate) fn prompt(self, length: usize) -> Vec<u32> {
        let json: Value = serde_json::from_str(self.config).unwrap();
        let vocabulary = json["vocab_size"].as_u64().unwrap() as u32;
        let raw = bytes_of(&format!("prompt of {length}"), self.seed, 2 * length);
        let pairs = raw.chunks(2);
        let token = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]])) % vocabulary;
        pairs.map(token).collect()
    }
}

/// Tensors by their names.
pub(crate) struct Generator {
    seed: u64,
    /// Whether scales of blocks are powers of two.
    powers: bool,
    chosen: usize,
    experts: usize,
    /// Format and columns of the latest quantised weight, whose scales come next.
    latest: (Format, usize),
    change: Change,
}

/// How large the numbers of a format are before any scale, as a power of two.
#[derive(Clone, Copy)]
enum Format {
    Real,
    E4m3,
    E2m1,
}

/// How large the numbers of a tensor are.
enum Recipe {
    Norm,
    Scale,
    Gain(i32),
    Spread(i32),
}

impl Generator {
    pub(crate) fn new(seed: u64, config: &Value, change: Change) -> Self {
        Self {
            seed,
            powers: config["quantization_config"]["scale_fmt"] == "ue8m0",
            chosen: config["num_experts_per_tok"].as_u64().unwrap() as usize,
            experts: config["n_routed_experts"].as_u64().unwrap() as usize,
            latest: (Format::Real, 0),
            change,
        }
    }

    fn make(&mut self, name: &str, shape: &[usize], dtype: Dtype) -> Vec<u8> {
        let count = shape.iter().product();
        match dtype {
            Dtype::I64 => self.table(name, shape[0], |id| (id as i64).to_le_bytes().to_vec()),
            Dtype::I32 => self.table(name, shape[0], |id| (id as i32).to_le_bytes().to_vec()),
            Dtype::F8_E4M3 => {
                self.latest = (Format::E4m3, shape[1]);
                let raw = bytes_of(name, self.seed, count).into_iter();
                raw.map(|raw| raw - u8::from(raw & 0x7f == 0x7f)).collect()
            }
            Dtype::I8 => {
                self.latest = (Format::E2m1, 2 * shape[1]);
                bytes_of(name, self.seed, count)
            }
            _ if name.ends_with(".scale") => {
                let (format, width) = self.latest;
                let exponent = exponent(name, format, width) - 1;
                let raw = bytes_of(name, self.seed, count).into_iter();
                if dtype == Dtype::F8_E8M0 {
                    let code = |raw: u8| (127 + exponent + i32::from(raw % 3)) as u8;
                    return raw.map(code).collect();
                }
                let scale = |raw: u8| {
                    let power = ((exponent + i32::from(raw % 3)) as f32).exp2();
                    (power * (1.0 + f32::from(raw) / 256.0)).to_le_bytes()
                };
                raw.flat_map(scale).collect()
            }
            _ => {
                let width = shape[shape.len() - 1];
                let raw = bytes_of(name, self.seed, count).into_iter();
                let value = |raw: u8| match recipe(name) {
                    Recipe::Norm => 1.0 + f32::from(i16::from(raw / 8) - 16) / 64.0,
                    Recipe::Scale => 1.0 + f32::from(raw) / 256.0,
                    Recipe::Gain(_) | Recipe::Spread(_) => {
                        let power = (exponent(name, Format::Real, width) as f32).exp2();
                        f32::from(2 * i16::from(raw) - 255) / 256.0 * power
                    }
                };
                let keep = if dtype == Dtype::F32 { 0 } else { 2 };
                raw.flat_map(|raw| value(raw).to_le_bytes()[keep..].to_vec())
                    .collect()
            }
        }
    }

    /// For each token as many different experts as it is routed to.
    fn table(&self, name: &str, tokens: usize, bytes: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
        let raw = bytes_of(name, self.seed, 2 * tokens);
        let mut table = Vec::new();
        for pair in raw.chunks(2) {
            let (first, step) = (usize::from(pair[0]), 2 * usize::from(pair[1]) + 1);
            for place in 0..self.chosen {
                table.extend(bytes((first + step * place) % self.experts));
            }
        }
        table
    }
}

impl Source for Generator {
    fn tensor(&mut self, name: &str, shape: &[usize], dtypes: &[Dtype]) -> Option<Tensor> {
        let dtype = match dtypes {
            [Dtype::F8_E8M0, Dtype::F32] if !self.powers => Dtype::F32,
            [Dtype::I64, Dtype::I32] if !self.powers => Dtype::I32,
            [Dtype::BF16, Dtype::F32] if in_f32(name) => Dtype::F32,
            [dtype, ..] => *dtype,
            [] => return None,
        };
        let mut tensor = Tensor {
            dtype,
            shape: shape.to_vec(),
            bytes: self.make(name, shape, dtype).into(),
        };
        (self.change)(name, &mut tensor);
        Some(tensor)
    }
}

fn in_f32(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.starts_with("hc_") || ["ape", "attn_sink", "bias"].contains(&last)
}

/// The high bytes of splitmix64 over FNV-1a of the name.
fn bytes_of(name: &str, seed: u64, count: usize) -> Vec<u8> {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |key, byte| {
        (key ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let key = hash.wrapping_add(seed.wrapping_mul(GOLDEN));
    (1..=count as u64)
        .map(|i| {
            let mut z = key.wrapping_add(i.wrapping_mul(GOLDEN));
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ z >> 31) >> 56) as u8
        })
        .collect()
}

fn recipe(name: &str) -> Recipe {
    let name = name.strip_suffix(".scale").unwrap_or(name);
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    match last {
        "norm" => Recipe::Norm,
        _ if last.ends_with("_norm") => Recipe::Norm,
        "embed" => Recipe::Spread(0),
        "head" => Recipe::Gain(1),
        "attn_sink" => Recipe::Spread(2),
        "ape" => Recipe::Spread(1),
        "bias" => Recipe::Spread(-1),
        _ if last.starts_with("hc_") => match last.rsplit('_').next() {
            Some("fn") => Recipe::Spread(-4),
            Some("base") => Recipe::Spread(2),
            _ => Recipe::Scale,
        },
        "wgate" | "wo_b" => Recipe::Gain(1),
        "w1" | "w3" => Recipe::Gain(2),
        "w2" => Recipe::Gain(-3),
        _ => Recipe::Gain(0),
    }
}

/// The exponent that gives a matrix of `width` columns its gain.
fn exponent(name: &str, format: Format, width: usize) -> i32 {
    let unit = match format {
        Format::Real => -1,
        Format::E4m3 => 7,
        Format::E2m1 => 2,
    };
    match recipe(name) {
        Recipe::Spread(exponent) => exponent,
        Recipe::Gain(gain) => gain - width.ilog2() as i32 / 2 - unit,
        Recipe::Norm | Recipe::Scale => 0,
    }
}
