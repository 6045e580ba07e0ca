//! The engine's own kernels: what each touches, how it is launched, and what it does on
//! the simulated device. The code for a GPU is in `engine.cu`.

use half::bf16;
use streamweir::driver::sim::{SimBlock, SimFault, SimKernel};
use streamweir::driver::{Backend, LaunchShape, ModuleImage};
use streamweir::kernel::{In, InOut, Out, Ptr, Refusal, twin};
use streamweir::kernels::compile::{Program, compile};
use streamweir::{Device, LoadedKernel, kernel};

use super::Failure;

/// Tokens of a page, and the most tokens of a session.
pub const PAGE: u32 = 16;
pub const CONTEXT: u32 = 512;
const THREADS: u32 = 256;

// begin: docs/guide.md, declaring kernels
kernel! {
    /// `x[row] = table[ids[row]]`; an id beyond the table is its last.
    ///
    /// # Safety
    /// A block reads one id and one row of the table, and writes one row.
    pub unsafe fn embed(
        ids: In<u32>, table: In<bf16>, x: Out<f32>, rows: u32, hidden: u32, vocab: u32,
    ) {
        some([("rows", rows), ("vocab", vocab)])?;
        ids.holds([rows])?;
        table.holds([vocab, hidden])?;
        x.holds([rows, hidden])?;
        Ok((rows, THREADS).into())
    }

    /// `out[row] = x[row] / rms(x[row]) * weight`
    ///
    /// # Safety
    /// A block reads one row and the weight, and writes one row.
    pub unsafe fn rms_norm(x: In<f32>, weight: In<f32>, out: Out<bf16>, rows: u32, hidden: u32) {
        some([("rows", rows)])?;
        x.holds([rows, hidden])?;
        weight.holds([hidden])?;
        out.holds([rows, hidden])?;
        Ok((rows, THREADS).into())
    }
}
// end: docs/guide.md, declaring kernels

kernel! {
    /// Turns query and key by their position, and puts key and value into the cache.
    ///
    /// # Safety
    /// A block reads a row of `qkv`, its position, its pages and one row of angles; it
    /// writes a row of `q`, and the slot of its position in a page of the cache.
    pub unsafe fn rope_and_store(
        qkv: In<bf16>, positions: In<u32>, pages: In<u32>, angles: In<f32>,
        q: Out<bf16>, keys: InOut<bf16>, values: InOut<bf16>,
        rows: u32, heads: u32, kv_heads: u32, width: u32, row_pages: u32, cache_pages: u32,
    ) {
        some([("rows", rows), ("row_pages", row_pages), ("cache_pages", cache_pages)])?;
        must(width.is_multiple_of(2), "width", width, "even")?;
        qkv.holds([rows, heads.saturating_add(kv_heads.saturating_mul(2)), width])?;
        positions.holds([rows])?;
        pages.holds([rows, row_pages])?;
        angles.holds([row_pages, PAGE, width])?;
        q.holds([rows, heads, width])?;
        keys.holds([cache_pages, PAGE, kv_heads, width])?;
        values.holds([cache_pages, PAGE, kv_heads, width])?;
        Ok((rows, THREADS).into())
    }

    /// Attention of each row over all that its session has stored.
    ///
    /// # Safety
    /// A block reads a head of a row's query, its position and pages, and of those pages
    /// the slots up to the position; it writes a head of a row.
    pub unsafe fn attention(
        q: In<bf16>, keys: In<bf16>, values: In<bf16>, positions: In<u32>, pages: In<u32>,
        out: Out<bf16>,
        rows: u32, heads: u32, kv_heads: u32, width: u32, row_pages: u32, cache_pages: u32,
    ) {
        some([("rows", rows), ("row_pages", row_pages), ("cache_pages", cache_pages)])?;
        some([("heads", heads), ("kv_heads", kv_heads)])?;
        must(heads.is_multiple_of(kv_heads), "heads", heads, "a multiple of kv_heads")?;
        must(row_pages <= CONTEXT / PAGE, "row_pages", row_pages, "at most those of CONTEXT")?;
        q.holds([rows, heads, width])?;
        positions.holds([rows])?;
        pages.holds([rows, row_pages])?;
        out.holds([rows, heads, width])?;
        keys.holds([cache_pages, PAGE, kv_heads, width])?;
        values.holds([cache_pages, PAGE, kv_heads, width])?;
        Ok(LaunchShape::from(([rows, heads, 1], [THREADS, 1, 1])))
    }

    /// `out = silu(gate) * up`, where a row is `gate` and then `up`.
    ///
    /// # Safety
    /// A block reads one row and writes one row.
    pub unsafe fn silu_mul(gate_up: In<bf16>, out: Out<bf16>, rows: u32, inner: u32) {
        some([("rows", rows)])?;
        gate_up.holds([rows, 2, inner])?;
        out.holds([rows, inner])?;
        Ok((rows, THREADS).into())
    }

    /// `x += a + b`, or without `b`.
    ///
    /// # Safety
    /// A thread touches its own element of each, and none from `len` on.
    pub unsafe fn add(x: InOut<f32>, a: In<bf16>, b: Option<In<bf16>>, len: u32) {
        some([("len", len)])?;
        x.holds([len])?;
        a.holds([len])?;
        if let Some(b) = b {
            b.holds([len])?;
        }
        Ok((len.div_ceil(THREADS), THREADS).into())
    }

    /// The place of the first of the largest logits of each row.
    ///
    /// # Safety
    /// A block reads one row and writes one element.
    pub unsafe fn argmax(logits: In<f32>, next: Out<u32>, rows: u32, vocab: u32) {
        some([("rows", rows), ("vocab", vocab)])?;
        logits.holds([rows, vocab])?;
        next.holds([rows])?;
        Ok((rows, THREADS).into())
    }
}

fn must(
    holds: bool,
    dimension: &'static str,
    value: u32,
    requirement: &'static str,
) -> Result<(), Refusal> {
    if holds {
        return Ok(());
    }
    Err(Refusal::Size {
        dimension,
        value: value.into(),
        requirement,
    })
}

fn some<const N: usize>(sizes: [(&'static str, u32); N]) -> Result<(), Refusal> {
    let mut sizes = sizes.into_iter();
    sizes.try_for_each(|(name, size)| must(size > 0, name, size, "at least 1"))
}

/// All of them, loaded.
pub struct Kernels {
    pub embed: LoadedKernel<embed>,
    pub rms_norm: LoadedKernel<rms_norm>,
    pub rope_and_store: LoadedKernel<rope_and_store>,
    pub attention: LoadedKernel<attention>,
    pub silu_mul: LoadedKernel<silu_mul>,
    pub add: LoadedKernel<add>,
    pub argmax: LoadedKernel<argmax>,
}

// begin: docs/guide.md, loading kernels
/// The code for a GPU.
pub fn program() -> Program {
    let constants = [("PAGE", PAGE), ("CONTEXT", CONTEXT), ("THREADS", THREADS)];
    let constants = constants.map(|(name, value)| format!("#define {name} {value}u\n"));
    Program {
        name: "engine.cu".into(),
        source: constants.concat() + include_str!("engine.cu"),
        headers: Vec::new(),
        toolkit_headers: false,
    }
}

impl Kernels {
    pub fn load(device: &Device) -> Result<Self, Failure> {
        let image = match device.info().backend {
            // By NVRTC the first time, from the cache on disk after that.
            Backend::Cuda => ModuleImage::Cuda(compile(&program(), device.info().capability)?),
            _ => ModuleImage::Sim(twins()),
        };
        let module = device.load(&image)?;
        // SAFETY: `engine.cu` and the twins do what the declarations say.
        unsafe {
            Ok(Self {
                embed: module.kernel()?,
                rms_norm: module.kernel()?,
                rope_and_store: module.kernel()?,
                attention: module.kernel()?,
                silu_mul: module.kernel()?,
                add: module.kernel()?,
                argmax: module.kernel()?,
            })
        }
    }
}
// end: docs/guide.md, loading kernels

// begin: docs/guide.md, a twin
/// What a thread block of each does, in Rust.
fn twins() -> Vec<SimKernel> {
    let embed = twin::<embed>(|block, (ids, table, x, _, hidden, vocab)| {
        let (row, hidden) = (block.index()[0] as usize, hidden as usize);
        let id = block.read::<u32>(ids.at(row), 1)?[0].min(vocab - 1);
        let from = block.read::<bf16>(table.at(id as usize * hidden), hidden)?;
        let x_row: Vec<f32> = from.iter().map(|value| value.to_f32()).collect();
        block.write(x.at(row * hidden), &x_row)
    });
    // end: docs/guide.md, a twin
    let rms_norm = twin::<rms_norm>(|block, (x, weight, out, _, hidden)| {
        let (row, hidden) = (block.index()[0] as usize, hidden as usize);
        let from = block.read::<f32>(x.at(row * hidden), hidden)?;
        let squares: f64 = from.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        let inverse = 1.0 / (squares / hidden as f64 + 1e-6).sqrt();
        let weight = block.read::<f32>(weight.at(0), hidden)?;
        let scaled = |(&v, &w): (&f32, &f32)| bf16::from_f64(f64::from(v) * inverse * f64::from(w));
        let to: Vec<bf16> = from.iter().zip(weight).map(scaled).collect();
        block.write(out.at(row * hidden), &to)
    });
    let silu_mul = twin::<silu_mul>(|block, (gate_up, out, _, inner)| {
        let (row, inner) = (block.index()[0] as usize, inner as usize);
        let from = block.read::<bf16>(gate_up.at(row * 2 * inner), 2 * inner)?;
        let (gate, up) = from.split_at(inner);
        let silu = |v: f64| v / (1.0 + (-v).exp());
        let both = |(g, u): (&bf16, &bf16)| bf16::from_f64(silu(g.to_f64()) * u.to_f64());
        let to: Vec<bf16> = gate.iter().zip(up).map(both).collect();
        block.write(out.at(row * inner), &to)
    });
    let add = twin::<add>(|block, (x, a, b, len)| {
        let first = (block.index()[0] * THREADS) as usize;
        let here = (len as usize - first).min(THREADS as usize);
        let a = block.read::<bf16>(a.at(first), here)?.to_vec();
        let b = match b {
            Some(b) => block.read::<bf16>(b.at(first), here)?.to_vec(),
            None => vec![bf16::ZERO; here],
        };
        let mut sums = block.read::<f32>(x.at(first), here)?.to_vec();
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(&b)) {
            *sum += a.to_f32() + b.to_f32();
        }
        block.write(x.at(first), &sums)
    });
    let argmax = twin::<argmax>(|block, (logits, next, _, vocab)| {
        let (row, vocab) = (block.index()[0] as usize, vocab as usize);
        let logits = block.read::<f32>(logits.at(row * vocab), vocab)?;
        let best = (1..vocab).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
        block.write(next.at(row), &[best as u32])
    });
    vec![
        embed,
        rms_norm,
        rope_twin(),
        attention_twin(),
        silu_mul,
        add,
        argmax,
    ]
}

fn rope_twin() -> SimKernel {
    twin::<rope_and_store>(
        |block,
         (
            qkv,
            positions,
            pages,
            angles,
            q,
            keys,
            values,
            _,
            heads,
            kv_heads,
            width,
            row_pages,
            cache_pages,
        )| {
            let row = block.index()[0] as usize;
            let (queries, cached) = ((heads * width) as usize, (kv_heads * width) as usize);
            let position = block.read::<u32>(positions.at(row), 1)?[0].min(row_pages * PAGE - 1);
            let slot = slot(block, pages, row, position, row_pages, cache_pages)? * cached;
            let angles = block
                .read::<f32>(angles.at((position * width) as usize), width as usize)?
                .to_vec();
            let all = queries + 2 * cached;
            let mut from = block.read::<bf16>(qkv.at(row * all), all)?.to_vec();
            for (i, pair) in from[..queries + cached].chunks_exact_mut(2).enumerate() {
                let [cos, sin] =
                    [0, 1].map(|part| f64::from(angles[(2 * i + part) % width as usize]));
                let [a, b] = [pair[0].to_f64(), pair[1].to_f64()];
                pair[0] = bf16::from_f64(a * cos - b * sin);
                pair[1] = bf16::from_f64(a * sin + b * cos);
            }
            block.write(q.at(row * queries), &from[..queries])?;
            block.write(keys.at(slot), &from[queries..queries + cached])?;
            block.write(values.at(slot), &from[queries + cached..])
        },
    )
}

fn attention_twin() -> SimKernel {
    twin::<attention>(
        |block,
         (
            q,
            keys,
            values,
            positions,
            pages,
            out,
            _,
            heads,
            kv_heads,
            width,
            row_pages,
            cache_pages,
        )| {
            let [row, head, _] = block.index();
            let (row, kv, width) = (
                row as usize,
                (head / (heads / kv_heads)) as usize,
                width as usize,
            );
            let last = block.read::<u32>(positions.at(row), 1)?[0].min(row_pages * PAGE - 1);
            let at = (row * heads as usize + head as usize) * width;
            let query = block.read::<bf16>(q.at(at), width)?.to_vec();
            let (mut weights, mut rows) = (Vec::new(), Vec::new());
            for position in 0..=last {
                let slot = slot(block, pages, row, position, row_pages, cache_pages)?;
                let at = (slot * kv_heads as usize + kv) * width;
                let key = block.read::<bf16>(keys.at(at), width)?;
                let dot: f64 = query
                    .iter()
                    .zip(key)
                    .map(|(q, k)| q.to_f64() * k.to_f64())
                    .sum();
                weights.push(dot / (width as f64).sqrt());
                rows.push(block.read::<bf16>(values.at(at), width)?.to_vec());
            }
            let most = weights.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = weights.iter().map(|weight| (weight - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let value = |i: usize| -> f64 {
                weights
                    .iter()
                    .zip(&rows)
                    .map(|(w, row)| w * row[i].to_f64())
                    .sum()
            };
            let result: Vec<bf16> = (0..width).map(|i| bf16::from_f64(value(i) / sum)).collect();
            block.write(out.at(at), &result)
        },
    )
}

/// Where a position of a row's session is in the cache, in tokens.
fn slot(
    block: &SimBlock<'_>,
    pages: Ptr<u32>,
    row: usize,
    position: u32,
    row_pages: u32,
    cache_pages: u32,
) -> Result<usize, SimFault> {
    let at = row * row_pages as usize + (position / PAGE) as usize;
    let page = block.read::<u32>(pages.at(at), 1)?[0].min(cache_pages - 1);
    Ok((page * PAGE + position % PAGE) as usize)
}
