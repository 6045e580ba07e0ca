//! Spans around what takes time, for whoever collects them.

use std::sync::{Arc, Mutex};

use streamweir::{Device, Error};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::common::LEN;

/// Notes the spans of streamweir, each with its graph.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<String>>>,
}

struct Graph(String);

impl Visit for Graph {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "graph" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "streamweir"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut graph = Graph(String::new());
        span.record(&mut graph);
        let mut spans = self.spans.lock().unwrap();
        spans.push(format!("{} {}", span.metadata().name(), graph.0));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn captures_proofs_and_replays_are_spans() {
    let collector = Collector::default();
    let spans = collector.spans.clone();
    tracing::subscriber::with_default(collector, || {
        let device = Device::sim(1);
        let out = device.persistent::<u32>("out", LEN).unwrap();
        let stream = device.stream("replay").unwrap();
        let (mut graph, ()) = device
            .capture::<_, Error>("decode", |cap| cap.origin().fill(&out, 1))
            .unwrap();
        graph.replay(&stream).unwrap();
        device
            .recapture::<_, Error>(&mut graph, "changed", |cap| cap.origin().fill(&out, 2))
            .unwrap();
    });
    assert_eq!(
        *spans.lock().unwrap(),
        [
            "capture decode",
            "proof decode",
            "instantiate decode",
            "replay decode",
            "recapture changed",
            "proof changed",
            "update changed",
        ]
    );
}
