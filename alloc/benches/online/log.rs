//! The logs that are played.

use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamweir_trace::{AllocLog, LogEvent, StreamId};

/// A log and what it is called.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) log: AllocLog,
}

const BUFFERS: u64 = 10_000;

/// The log of 10,000 buffers on this many streams.
pub(crate) fn of(streams: u64) -> Named {
    let name = format!("s{streams}_n{BUFFERS}");
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/alloc-logs");
    let folder = std::env::var_os("STREAMWEIR_ALLOC_LOGS").map_or(beside, PathBuf::from);
    match std::fs::read(folder.join(format!("{name}.json"))) {
        Ok(text) => Named {
            log: AllocLog::from_json(&text).expect("the file is a log"),
            name,
        },
        Err(_) => Named {
            log: AllocLog::from_json(generated(streams).as_bytes()).expect("it makes a log"),
            name: format!("g{streams}_n{BUFFERS}"),
        },
    }
}

/// A seeded program: each step takes a buffer of 4 KiB to 4 MiB (even over the
/// powers of two) on some stream, writes it, reads up to two earlier ones that the
/// stream may see, and frees what it is done with; now and then a stream waits for
/// another one.
fn generated(streams: u64) -> String {
    let mut rng = StdRng::seed_from_u64(streams);
    let mut below = |bound: u64| rng.random_range(0..bound);
    let mut events: Vec<String> = (1..streams)
        .map(|to| format!("{{\"join\":[0,{to}]}}"))
        .collect();
    // What each stream may see of the others, by buffers taken on them so far.
    let mut sees = vec![vec![0_u64; streams as usize]; streams as usize];
    let mut held: Vec<(u64, usize, u64)> = Vec::new();
    let mut taken = vec![0_u64; streams as usize];
    for id in 0..BUFFERS {
        let stream = below(streams) as usize;
        if streams > 1 && below(20) == 0 {
            let from = below(streams) as usize;
            if from != stream {
                events.push(format!("{{\"join\":[{from},{stream}]}}"));
                sees[from][from] = taken[from];
                let known = sees[from].clone();
                for (seen, known) in sees[stream].iter_mut().zip(known) {
                    *seen = known.max(*seen);
                }
            }
        }
        let bytes = (4096 << below(10)) + below(8) * 512;
        events.push(format!(
            "{{\"alloc\":{id},\"stream\":{stream},\"bytes\":{bytes}}}"
        ));
        let visible = |&&(_, on, at): &&(u64, usize, u64)| on == stream || at < sees[stream][on];
        let reads: Vec<u64> = (held.iter().rev().filter(visible).take(2))
            .map(|h| h.0)
            .collect();
        events.push(format!(
            "{{\"kernel\":{id},\"stream\":{stream},\"reads\":{reads:?},\"writes\":[{id}]}}"
        ));
        held.push((id, stream, taken[stream]));
        taken[stream] += 1;
        while held.len() as u64 > 12 + 4 * streams {
            let (id, ..) = held.remove(below(held.len() as u64 / 2) as usize);
            events.push(format!("{{\"free\":{id}}}"));
        }
    }
    format!(
        "{{\"format\":\"alloc-log-1\",\"streams\":{streams},\"origin\":0,\"events\":[{}]}}",
        events.join(",")
    )
}

impl Named {
    /// The streams by number.
    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        (0..self.log.streams).map(StreamId)
    }

    /// What happens, in order.
    pub(crate) fn events(&self) -> &[LogEvent] {
        &self.log.events
    }
}
