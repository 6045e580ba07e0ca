//! Placing one file, and asking the verifier about it.

use std::fmt;
use std::time::{Duration, Instant};

use streamweir::alloc::Policy;
use streamweir::alloc::replay::{ReplayError, Users, replay};
use streamweir::place::{Budget, Floor, Plan, Problem, Recorded, Waste, floor};
use streamweir::trace::{AllocLog, ByteRange, LogEvent, Reserved, StreamId};
use streamweir::verify::{Options as Verify, Verdict, verify_with};

use super::file::{Kind, Read};
use super::progress::Bar;
use super::{Mode, Options};

/// A layout with what is to be said of it.
pub(super) struct Placed {
    pub(super) kind: Kind,
    pub(super) mode: Mode,
    pub(super) policy: Policy,
    pub(super) streams: u32,
    /// The names of the buffers.
    pub(super) buffers: Vec<String>,
    pub(super) height: u64,
    pub(super) floor: Floor,
    pub(super) valid: bool,
    pub(super) hazards: u64,
    pub(super) took: Duration,
    /// What `took` is made of: buffers that were planned, or calls of the pools.
    pub(super) operations: u64,
    pub(super) waste: Vec<Waste>,
    pub(super) untouched: Untouched,
    /// The addresses of the buffers.
    pub(super) ranges: Vec<ByteRange>,
}

/// Buffers that no kernel reads or writes. They are placed by the calls of the
/// host alone, so that no order of kernels says whether their bytes may be
/// shared, and the verifier has nothing to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Untouched {
    pub(super) buffers: u64,
    /// What the program asked for.
    pub(super) bytes: u64,
}

impl Untouched {
    fn of(log: &AllocLog) -> Self {
        let mut touched = vec![false; log.buffers.len()];
        for event in &log.events {
            if let LogEvent::Kernel { reads, writes, .. } = event {
                for buffer in reads.iter().chain(writes) {
                    touched[buffer.index()] = true;
                }
            }
        }
        let alone = touched
            .iter()
            .zip(&log.buffers)
            .filter(|(touched, _)| !**touched);
        alone.fold(Self::default(), |sum, (_, buffer)| Self {
            buffers: sum.buffers + 1,
            bytes: sum.bytes + buffer.bytes,
        })
    }
}

/// Why a file is not placed.
pub(super) enum Refused {
    /// It cannot be read, or makes no sense.
    Unreadable(String),
    /// It does not fit.
    TooSmall {
        capacity: u64,
        height: u64,
        floor: Floor,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(what) => f.write_str(what),
            Self::TooSmall {
                capacity,
                height,
                floor,
            } => {
                let (least, kind) = (floor.bytes, floor.kind);
                if *capacity < least {
                    write!(
                        f,
                        "a capacity of {capacity} bytes is too small: no layout takes less than {least} ({kind})"
                    )
                } else {
                    write!(
                        f,
                        "no layout within the capacity of {capacity} bytes was found, the lowest takes {height}; \
                         {least} would be the least possible ({kind}). Try a larger --budget-ms"
                    )
                }
            }
        }
    }
}

impl Placed {
    pub(super) fn ratio(&self) -> f64 {
        if self.floor.bytes == 0 {
            return 1.0;
        }
        self.height as f64 / self.floor.bytes as f64
    }

    pub(super) fn floor_kind(&self) -> String {
        let lives = match self.mode {
            Mode::Planned => "planned",
            Mode::Live | Mode::Foreign => "online",
        };
        format!("{lives} {}", self.floor.kind)
    }

    pub(super) fn ns_per_op(&self) -> f64 {
        self.took.as_nanos() as f64 / self.operations.max(1) as f64
    }
}

/// Where the buffers went.
struct Layout {
    ranges: Vec<ByteRange>,
    height: u64,
    took: Duration,
    operations: u64,
    pools: Vec<Reserved>,
    /// By stream.
    reserved: Vec<u64>,
}

/// Addresses of planned layouts begin here.
const BASE: u64 = 1 << 40;

pub(super) fn place(name: &str, read: &Read, options: &Options) -> Result<Placed, Refused> {
    let log = &read.log;
    let policy = options.policy.policy();
    let unreadable = |error: &dyn fmt::Display| Refused::Unreadable(error.to_string());
    let recorded = Recorded::of(log).map_err(|error| unreadable(&error))?;
    let start = Instant::now();
    let problem = recorded.problem().map_err(|error| unreadable(&error))?;
    let layout = match options.mode {
        Mode::Planned => {
            let budget = Duration::from_millis(options.budget_ms).saturating_sub(start.elapsed());
            let bar = Bar::new(name);
            let plan = problem.plan_watched(
                options.policy.sharing(),
                Budget::time(budget),
                options.capacity,
                &mut |progress| bar.show(progress),
            );
            bar.clear();
            planned(&problem, &plan, start.elapsed())
        }
        Mode::Live => online(log, policy, Users::Known).map_err(|error| unreadable(&error))?,
        Mode::Foreign => online(log, policy, Users::Unknown).map_err(|error| unreadable(&error))?,
    };
    let floor = match options.mode {
        Mode::Planned => problem.floor(),
        Mode::Live | Mode::Foreign => floor(&recorded.held, problem.held()),
    };
    let height = layout.height;
    if let Some(capacity) = options.capacity.filter(|&capacity| height > capacity) {
        return Err(Refused::TooSmall {
            capacity,
            height,
            floor,
        });
    }
    let mut trace = log.to_trace(name, &layout.ranges);
    trace.reserved = layout.pools;
    let verify = Verify {
        certificate: false,
        ..Verify::default()
    };
    let report = verify_with(&trace, &verify).map_err(|error| unreadable(&error))?;
    Ok(Placed {
        kind: read.kind,
        mode: options.mode,
        policy,
        streams: log.streams,
        buffers: log.buffers.iter().map(|b| b.name.clone()).collect(),
        height,
        floor,
        valid: report.verdict == Verdict::Safe,
        hazards: report.hazards_total,
        took: layout.took,
        operations: layout.operations,
        waste: Waste::of(log, &problem, &layout.reserved),
        untouched: Untouched::of(log),
        ranges: layout.ranges,
    })
}

fn planned(problem: &Problem, plan: &Plan, took: Duration) -> Layout {
    let at = |offset: u64| BASE + offset;
    let ranges = plan
        .offsets
        .iter()
        .zip(problem.items())
        .map(|(&offset, item)| {
            // A buffer of no bytes has an address of its own, hence one byte.
            ByteRange::new(at(offset), at(offset) + item.bytes.max(1))
        });
    let pools = plan.pools.iter().map(|&(pool, bytes)| Reserved {
        stream: pool.map(StreamId),
        range: ByteRange::new(at(bytes.start), at(bytes.end)),
    });
    Layout {
        ranges: ranges.collect(),
        height: plan.height,
        took,
        operations: problem.items().len() as u64,
        pools: pools.collect(),
        reserved: plan.reserved_by_stream(problem),
    }
}

fn online(log: &AllocLog, policy: Policy, users: Users) -> Result<Layout, ReplayError> {
    let replayed = replay(log, policy, users)?;
    let mut reserved = vec![0; log.streams as usize];
    for stream in &replayed.report.streams {
        let number = (0..log.streams).find(|n| *stream.stream == *format!("stream {n}"));
        if let Some(number) = number {
            reserved[number as usize] = stream.reserved;
        }
    }
    Ok(Layout {
        ranges: replayed.ranges,
        height: replayed.reserved,
        took: replayed.took,
        operations: replayed.calls,
        pools: Vec::new(),
        reserved,
    })
}
