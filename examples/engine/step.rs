//! One step of the model, as a recording: the same code is captured for each bucket, and
//! runs eagerly where there is no bucket.

use half::bf16;
use streamweir::kernels::gemm::{Gemm, GemmError, GemmLibrary, GemmOptions, GemmShape};
use streamweir::{Capture, Device, Persistent, Result, Scratch, Stream, part};

use super::kernels::*;
use super::model::{Cache, Config, Layer, OnDevice};

/// What every step reads and writes, beside scratch.
pub struct Model {
    pub config: Config,
    pub kernels: Kernels,
    pub weights: OnDevice,
    pub angles: Persistent<f32>,
    pub cache: Cache,
    pub inputs: Inputs,
}

/// What a step is fed with, a row for each token, and what it gives.
pub struct Inputs {
    pub ids: Persistent<u32>,
    pub positions: Persistent<u32>,
    /// The pages of the row's session, `CONTEXT / PAGE` of them.
    pub pages: Persistent<u32>,
    pub next: Persistent<u32>,
}

// begin: docs/guide.md, inputs
impl Inputs {
    pub fn new(device: &Device, rows: usize) -> Result<Self> {
        Ok(Self {
            ids: device.persistent("ids", rows)?,
            positions: device.persistent("positions", rows)?,
            pages: device.persistent("pages", rows * ROW_PAGES as usize)?,
            next: device.persistent("next", rows)?,
        })
    }
}
// end: docs/guide.md, inputs

/// Pages of a session, at the most.
pub const ROW_PAGES: u32 = CONTEXT / PAGE;

/// The products of a step of so many rows, their algorithms chosen.
pub struct Products {
    qkv: Gemm<bf16>,
    out: Gemm<bf16>,
    gate_up: Gemm<bf16>,
    down: Gemm<bf16>,
    shared_gate_up: Gemm<bf16>,
    shared_down: Gemm<bf16>,
    head: Gemm<f32>,
}

// begin: docs/guide.md, products
impl Products {
    /// Outside of any capture: the library chooses by measuring nothing.
    pub fn new(
        library: &GemmLibrary,
        c: &Config,
        rows: u32,
    ) -> std::result::Result<Self, GemmError> {
        let options = GemmOptions::default();
        let gemm = |width, out| library.gemm(GemmShape::new(rows, width, out), options);
        Ok(Self {
            qkv: gemm(c.hidden, c.qkv())?,
            out: gemm(c.heads * c.width, c.hidden)?,
            gate_up: gemm(c.hidden, 2 * c.inner)?,
            down: gemm(c.inner, c.hidden)?,
            shared_gate_up: gemm(c.hidden, 2 * c.shared)?,
            shared_down: gemm(c.shared, c.hidden)?,
            head: library.gemm(GemmShape::new(rows, c.hidden, c.vocab), options)?,
        })
    }
}
// end: docs/guide.md, products

#[rustfmt::skip] // A launch reads best on one line.
impl Model {
    // begin: docs/guide.md, a step
    /// Records a step of `rows` rows, with the shared expert on a stream of its own or
    /// behind the other one.
    pub fn record(&self, cap: &Capture, products: &Products, rows: u32, overlap: bool) -> Result<()> {
        let (c, k, io) = (&self.config, &self.kernels, &self.inputs);
        let main = cap.origin();
        let len = rows * c.hidden;
        let x = main.scratch::<f32>("x", len as usize)?;
        let table = &self.weights.embedding;
        main.launch(&k.embed, embed { ids: &io.ids, table, x: &x, rows, hidden: c.hidden, vocab: c.vocab })?;
        for (at, layer) in self.weights.layers.iter().enumerate() {
            let name = |part: &str| format!("layer {at}/{part}"); // what a report prints
            let a = self.attend(&main.scope(&name("attention")), at, layer, products, &x, rows)?;
            main.launch(&k.add, add { x: &x, a: &a, b: None::<&Scratch<bf16>>, len })?;

            let h = main.scratch::<bf16>("h", len as usize)?;
            main.launch(&k.rms_norm, rms_norm { x: &x, weight: &layer.mlp_norm, out: &h, rows, hidden: c.hidden })?;
            // From here the shared expert may overlap with the other one. Its scratch
            // is of a pool of its own, so what it takes cannot alias what main takes.
            let side = cap.fork_if(overlap, &main, "shared expert")?;
            let shared = [&layer.shared_gate_up, &layer.shared_down];
            let b = self.expert(&side.scope(&name("shared expert")), &h, shared,
                [&products.shared_gate_up, &products.shared_down], c.shared, rows)?;
            let a = self.expert(&main.scope(&name("expert")), &h, [&layer.gate_up, &layer.down],
                [&products.gate_up, &products.down], c.inner, rows)?;
            // Main continues after the shared expert; the token shows it the result.
            let seen = cap.join(&main, side)?;
            main.launch(&k.add, add { x: &x, a: &a, b: Some(seen.see(&b)), len })?;
        }
        let h = main.scratch::<bf16>("h", len as usize)?;
        main.launch(&k.rms_norm, rms_norm { x: &x, weight: &self.weights.norm, out: &h, rows, hidden: c.hidden })?;
        let logits = main.scratch::<f32>("logits", (rows * c.vocab) as usize)?;
        products.head.launch(&main, &h, &self.weights.head, &logits)?;
        let next = part(&io.next, 0..rows as usize)?;
        main.launch(&k.argmax, argmax { logits: &logits, next, rows, vocab: c.vocab })
    }
    // end: docs/guide.md, a step

    fn attend(&self, main: &Stream, at: usize, layer: &Layer<Persistent<bf16>, Persistent<f32>>,
        products: &Products, x: &Scratch<f32>, rows: u32) -> Result<Scratch<bf16>> {
        let (c, k, io) = (&self.config, &self.kernels, &self.inputs);
        let scratch = |name, len: u32| main.scratch::<bf16>(name, len as usize);
        let h = scratch("h", rows * c.hidden)?;
        main.launch(&k.rms_norm, rms_norm { x, weight: &layer.norm, out: &h, rows, hidden: c.hidden })?;
        let qkv = scratch("qkv", rows * c.qkv())?;
        products.qkv.launch(main, &h, &layer.qkv, &qkv)?;
        let q = scratch("q", rows * c.heads * c.width)?;
        let [keys, values] = &self.cache.layers[at];
        let (heads, kv_heads, width) = (c.heads, c.kv_heads, c.width);
        let (row_pages, cache_pages) = (ROW_PAGES, self.cache.pages);
        main.launch(&k.rope_and_store, rope_and_store {
            qkv: &qkv, positions: &io.positions, pages: &io.pages, angles: &self.angles, q: &q, keys, values,
            rows, heads, kv_heads, width, row_pages, cache_pages,
        })?;
        let attended = scratch("attended", rows * heads * width)?;
        main.launch(&k.attention, attention {
            q: &q, keys, values, positions: &io.positions, pages: &io.pages, out: &attended,
            rows, heads, kv_heads, width, row_pages, cache_pages,
        })?;
        let out = scratch("out", rows * c.hidden)?;
        products.out.launch(main, &attended, &layer.out, &out)?;
        Ok(out)
        // The host drops the rest here; whoever asks next on this stream gets the bytes.
    }

    fn expert(&self, stream: &Stream, h: &Scratch<bf16>, [gate_up, down]: [&Persistent<bf16>; 2],
        products: [&Gemm<bf16>; 2], inner: u32, rows: u32) -> Result<Scratch<bf16>> {
        let scratch = |name, len: u32| stream.scratch::<bf16>(name, len as usize);
        let wide = scratch("gate up", rows * 2 * inner)?;
        products[0].launch(stream, h, gate_up, &wide)?;
        let narrow = scratch("activated", rows * inner)?;
        stream.launch(&self.kernels.silu_mul, silu_mul { gate_up: &wide, out: &narrow, rows, inner })?;
        let out = scratch("expert", rows * self.config.hidden)?;
        products[1].launch(stream, &narrow, down, &out)?;
        Ok(out)
    }
}
