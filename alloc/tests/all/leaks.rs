//! What is said of scratch that was never freed, and of graphs that hold memory.

use std::sync::{Arc, Mutex};

use streamweir_alloc::{Holder, Policy, Pools};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::device::Device;
use crate::pools::pools;

/// Keeps the messages of warnings.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        self.0.lock().unwrap().push(message);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// What is logged while `pools` go away.
fn logged_by_drop(pools: Pools) -> Vec<String> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || drop(pools));
    let lines = log.0.lock().unwrap();
    lines.clone()
}

#[test]
fn what_is_never_freed_is_named_before_and_at_the_drop() {
    for ended in [false, true] {
        let pools = pools(Policy::ISOLATED);
        let main = pools.add_stream("main", "main").unwrap();
        let side = pools.add_stream("side", "indexer").unwrap();
        pools.alloc(main, 1000, "query").unwrap();
        pools.alloc(side, 6000, "scores").unwrap();
        pools.workspace(side, 2048, "cublasLt").unwrap();
        let freed = pools.alloc(main, 500, "freed").unwrap();
        pools.free(freed.id).unwrap();
        let late = pools.alloc(main, 700, "late").unwrap();
        let lease = ended.then(|| pools.finish().unwrap());
        pools.free(late.id).unwrap();

        let leaks = pools.leaks();
        let names: Vec<_> = leaks.buffers.iter().map(|leak| &*leak.buffer).collect();
        assert_eq!(names, ["scores", "query"], "ended: {ended}");
        assert_eq!(leaks.bytes(), 7000);
        let first = &leaks.buffers[0];
        assert_eq!((&*first.stream, &*first.tag), ("side", "indexer"));
        assert_eq!(
            leaks.to_string(),
            format!(
                "2 scratch buffers in arena \"decode\" (6.8 KiB) never freed; drop the handles, \
                 or free the blocks, where their last use is recorded\n  \
                 \"scores\" of stream \"side\" (tag \"indexer\"), 6000 bytes at {}\n  \
                 \"query\" of stream \"main\" (tag \"main\"), 1000 bytes at {}",
                leaks.buffers[0].range, leaks.buffers[1].range
            )
        );
        assert_eq!(logged_by_drop(pools), [leaks.to_string()]);
        drop(lease);
    }
}

#[test]
fn nothing_is_said_where_all_is_freed() {
    let pools = pools(Policy::ORDERED);
    let main = pools.add_stream("main", "main").unwrap();
    let block = pools.alloc(main, 1000, "query").unwrap();
    pools.workspace(main, 2048, "cublasLt").unwrap();
    pools.finish().unwrap();
    pools.free(block.id).unwrap();
    assert!(pools.leaks().is_empty());
    assert_eq!(
        pools.leaks().to_string(),
        "all scratch in arena \"decode\" was freed"
    );
    assert_eq!(logged_by_drop(pools), [""; 0]);
}

#[test]
fn a_long_list_is_cut_and_counted() {
    let pools = pools(Policy::ISOLATED);
    let main = pools.add_stream("main", "main").unwrap();
    for i in 0..11 {
        pools.alloc(main, 256, format!("x{i}")).unwrap();
    }
    let text = pools.leaks().to_string();
    assert_eq!(text.lines().count(), 1 + 8 + 1, "{text}");
    assert!(text.ends_with("\n  and 3 more"), "{text}");
}

#[test]
fn an_arena_says_which_captures_and_graphs_hold_it() {
    let arena = Device::new().arena(64 << 10, 4 << 10);
    let capture = |name: &str, bytes| {
        let pools = Pools::new(arena.open_for(name), Policy::ISOLATED);
        let main = pools.add_stream("main", "main").unwrap();
        let block = pools.alloc(main, bytes, "x").unwrap();
        pools.free(block.id).unwrap();
        pools
    };
    let (small, large) = (capture("decode/8", 4096), capture("decode/64", 16384));
    let holder = |name: &str, bytes, graph| Holder {
        capture: name.into(),
        bytes,
        graph,
    };
    let lease = large.finish().unwrap();
    assert_eq!(
        arena.holders(),
        [
            holder("decode/64", 16384, true),
            holder("decode/8", 4096, false)
        ]
    );
    small.abort();
    assert_eq!(arena.holders(), [holder("decode/64", 16384, true)]);
    drop(lease);
    assert_eq!(arena.holders(), []);
}
