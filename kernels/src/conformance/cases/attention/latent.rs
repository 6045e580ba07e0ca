//! Attention over fp8 latents.

use half::{bf16, f16};
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::kernel::Kernel;

use super::super::super::bench::{Bench, arg, close_to, equal, widen};
use super::super::{HALF, Outcome};
use super::pool::{Pool, beyond, slots};
use crate::conformance::{Case, Failure, Size};
use crate::dsv4::{self, AttentionSplits};
use crate::layout::LatentFp8Pages;
use crate::reference;

pub(super) const SPARSE: Case = case("sparse_attention", |bench, size| {
    let job = Job {
        tokens: affordable(size, size.tokens),
        heads: affordable(size, size.heads),
        window: size.k.min(128) + 3,
        entries: size.k,
        splits: 4,
        magnitude: 0,
    };
    sparse(bench, job)
});

pub(super) const PAGED: Case = case("paged_attention", |bench, size| {
    let job = Job {
        tokens: affordable(size, size.tokens),
        heads: affordable(size, size.heads),
        window: size.k.min(128),
        entries: size.entries.min(2 * size.k + 5),
        splits: 5,
        magnitude: 0,
    };
    paged(bench, job, 64)
});

pub(super) const SPARSE_SWEEP: Case = case("sparse_attention_sweep", |bench, size| {
    sweep(size, |job| sparse(bench, job))
});

pub(super) const PAGED_SWEEP: Case = case("paged_attention_sweep", |bench, size| {
    sweep(size, |job| {
        // The model's two pools of whole sequences, and an uneven one.
        let per_page = [2, 64, 3][(job.tokens % 3) as usize];
        paged(bench, job, per_page)
    })
});

const fn case(name: &'static str, body: fn(&mut Bench<'_>, Size) -> Outcome) -> Case {
    Case { name, body }
}

/// The sizes of one comparison.
#[derive(Clone, Copy, Debug)]
struct Job {
    tokens: u32,
    heads: u32,
    window: u32,
    /// Selected entries, or the most of a sequence.
    entries: u32,
    splits: u32,
    /// The power of two that latents are larger by, and queries smaller.
    magnitude: i32,
}

/// Whether the sizes are the model's. A latent has 512 dimensions at any size,
/// so a twin in an unoptimised build affords few tokens and heads.
fn large(size: Size) -> bool {
    size.heads >= 64
}

fn affordable(size: Size, count: u32) -> u32 {
    if large(size) { count } else { count.min(3) }
}

/// Every border of a step, a window, a selection and a split, and batches from 1
/// to 64. At the model's sizes with its heads, at small ones with few.
fn sweep(size: Size, mut run: impl FnMut(Job) -> Outcome) -> Outcome {
    let large = large(size);
    let entries: &[u32] = match large {
        true => &[0, 1, 3, 4, 5, 127, 128, 129, 511, 512, 513, 1024, 1500],
        false => &[0, 1, 33],
    };
    let mut jobs: Vec<Job> = entries
        .iter()
        .enumerate()
        .map(|(i, &entries)| Job {
            tokens: affordable(size, 1 + i as u32 % 4),
            heads: if large { [1, 64, 65][i % 3] } else { 1 },
            window: [0, 1, 17, 31, 33, 127, 128][i % 7],
            entries,
            splits: [1, 2, 3, 7, 20, 128][i % 6],
            // Sums that are beyond f16 and scores that are not.
            magnitude: [0, -30, 30][i % 3],
        })
        .collect();
    if large {
        jobs.push(Job {
            tokens: 2,
            heads: 128,
            window: 128,
            entries: 1024,
            splits: 6,
            magnitude: 0,
        });
        // Few entries, so that the reference keeps up.
        jobs.extend(
            [1, 2, 4, 8, 12, 16, 24, 32, 33, 48, 63, 64].map(|tokens| Job {
                tokens,
                heads: 64,
                window: 20,
                entries: 13,
                splits: AttentionSplits::for_device(tokens, 64, 640, 132).splits(),
                magnitude: 0,
            }),
        );
    }
    for job in jobs {
        run(job).map_err(|failure| Failure::new(format!("{job:?}: {failure}")))?;
    }
    Ok(())
}

/// What all jobs have: queries, sinks and a window.
struct Common {
    job: Job,
    q: Vec<bf16>,
    q_at: u64,
    sink: Vec<f32>,
    sink_at: u64,
    window: Pool,
    window_slots: Vec<i32>,
    window_slots_at: u64,
    /// The entries of each token, so far those of its window.
    entries: Vec<Vec<Vec<f64>>>,
}

impl Common {
    fn new(bench: &mut Bench<'_>, job: Job) -> Result<Self, Failure> {
        let values = job.tokens * job.heads * LatentFp8Pages::DIM;
        let unit = (-job.magnitude as f32).exp2();
        // Large queries make the softmax pick few entries; unit ones all of them.
        let q: Vec<bf16> = (0..values)
            .map(|i| bf16::from_f32(bench.unit() * if i % 2 == 0 { unit } else { 4.0 * unit }))
            .collect();
        // No sink, an overwhelming one, small ones.
        let sink: Vec<f32> = (0..job.heads)
            .map(|head| match head % 4 {
                0 => f32::NEG_INFINITY,
                1 => 8.0,
                _ => bench.unit(),
            })
            .collect();
        let window = Pool::new(bench, LatentFp8Pages::window(2)?, job.magnitude)?;
        let window_slots = slots(bench, job.tokens, job.window, &window);
        let entries = (0..job.tokens as usize)
            .map(|token| {
                let row = &window_slots[token * job.window as usize..][..job.window as usize];
                row.iter().filter_map(|&slot| window.latent(slot)).collect()
            })
            .collect();
        Ok(Self {
            job,
            q_at: bench.upload(&q)?,
            q,
            sink_at: bench.upload(&sink)?,
            sink,
            window,
            window_slots_at: bench.upload(&window_slots)?,
            window_slots,
            entries,
        })
    }

    fn add(&mut self, token: usize, latents: impl Iterator<Item = Vec<f64>>) {
        self.entries[token].extend(latents);
    }

    /// Launches the kernel `K` and finishes, often enough to see any disorder.
    fn compare<K: Kernel>(
        self,
        bench: &mut Bench<'_>,
        splits: AttentionSplits,
        shape: LaunchShape,
        second: Second,
    ) -> Outcome {
        let job = self.job;
        let partial = bench.output::<f16>(splits.partial_len())?;
        let stats = bench.output::<f32>(splits.stats_len())?;
        let faults = bench.upload(&[0_u32])?;
        let scale = dsv4::sparse_attention::scale();
        let mut args = vec![
            arg(self.q_at),
            arg(self.window.at),
            arg(self.window_slots_at),
        ];
        args.extend(second.reads);
        args.extend([
            arg(partial),
            arg(stats),
            arg(faults),
            arg(self.window.pages),
            arg(second.layout),
            arg(job.tokens),
            arg(job.heads),
            arg(job.window),
        ]);
        args.extend(second.sizes);
        args.push(arg(scale));
        let combine = dsv4::combine_attention::shape(&splits)?;
        let runs = bench.runs();
        let out: Vec<bf16> = bench.repeat(runs, self.q.len(), |bench, out| {
            bench.launch::<K>(shape, args.clone())?;
            bench.launch::<dsv4::combine_attention>(
                combine,
                vec![
                    arg(partial),
                    arg(stats),
                    arg(self.sink_at),
                    arg(out),
                    arg(job.tokens),
                    arg(job.heads),
                    arg(job.splits),
                ],
            )
        })?;
        let counted = bench.download::<u32>(faults, 1)?;
        let bad = second.bad + beyond(&self.window_slots, &self.window);
        equal(&counted, &[bad * runs as u32])?;
        let expected = reference::latent_attention(&self.q, &self.entries, &self.sink, scale);
        close_to(&widen(&out), &expected, HALF)
    }
}

/// What differs between the kernels: the second pool.
struct Second {
    /// The parameters that say where its entries are.
    reads: Vec<Vec<u8>>,
    layout: LatentFp8Pages,
    /// The parameters that say how many.
    sizes: Vec<Vec<u8>>,
    /// Faults that a launch counts in it.
    bad: u32,
}

fn sparse(bench: &mut Bench<'_>, job: Job) -> Outcome {
    let mut common = Common::new(bench, job)?;
    let pool = Pool::new(bench, LatentFp8Pages::c4(3)?, job.magnitude)?;
    let indices = slots(bench, job.tokens, job.entries, &pool);
    for token in 0..job.tokens as usize {
        let row = &indices[token * job.entries as usize..][..job.entries as usize];
        common.add(token, row.iter().filter_map(|&slot| pool.latent(slot)));
    }
    let splits = AttentionSplits::new(job.tokens, job.heads, job.splits);
    let second = Second {
        reads: vec![arg(pool.at), arg(bench.upload(&indices)?)],
        layout: pool.pages,
        sizes: vec![arg(job.entries)],
        bad: beyond(&indices, &pool),
    };
    let shape = dsv4::sparse_attention::shape(&splits, bench.capability())?;
    common.compare::<dsv4::sparse_attention>(bench, splits, shape, second)
}

fn paged(bench: &mut Bench<'_>, job: Job, per_page: u32) -> Outcome {
    const PAGES: u32 = 40;
    let mut common = Common::new(bench, job)?;
    let pool = Pool::new(bench, LatentFp8Pages::new(per_page, PAGES)?, job.magnitude)?;
    let stride = job.entries.div_ceil(per_page) + 1;
    let mut table: Vec<i32> = (0..job.tokens * stride)
        .map(|_| bench.below(PAGES) as i32)
        .collect();
    // Ids outside the pool, in a page that token 0 reaches and in one that none
    // does.
    table[0] = PAGES as i32;
    table[stride as usize - 1] = -1;
    let all = job.entries as i32;
    let border = [all, 0, all + 5, -3, all / 2, 1.min(all), all - 1];
    let lens: Vec<i32> = (0..job.tokens as usize)
        .map(|token| match border.get(token) {
            Some(&len) => len,
            None => bench.below(job.entries + 1) as i32,
        })
        .collect();
    let mut bad = 0;
    for token in 0..job.tokens as usize {
        let table = &table[token * stride as usize..][..stride as usize];
        let len = lens[token].clamp(0, all) as u32;
        bad += (0..len)
            .filter(|&entry| pool.pages.layout().slot(table, entry).is_none())
            .count() as u32;
        common.add(
            token,
            (0..len).filter_map(|entry| pool.latent(pool.pages.slot(table, entry))),
        );
    }
    let splits = AttentionSplits::new(job.tokens, job.heads, job.splits);
    let second = Second {
        reads: vec![
            arg(pool.at),
            arg(bench.upload(&table)?),
            arg(bench.upload(&lens)?),
        ],
        layout: pool.pages,
        sizes: vec![arg(job.entries), arg(stride)],
        bad,
    };
    let shape = dsv4::paged_attention::shape(
        &splits,
        bench.capability(),
        job.entries,
        stride,
        &pool.pages,
    )?;
    common.compare::<dsv4::paged_attention>(bench, splits, shape, second)
}
