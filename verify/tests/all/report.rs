//! The report as people and programs see it.

use streamweir_verify::{Options, Report, verify, verify_with};

use crate::build::*;

fn story() -> streamweir_trace::Trace {
    let mut cap = Capture::new();
    let indexer = cap.trace.add_scope("layer 2/indexer");
    let scores = cap.scratch(MAIN, "scores", 0x1000, 0x400);
    let fill = cap.node(MAIN, "project");
    cap.join(SIDE, MAIN);
    let logits = cap.node(SIDE, "logits");
    cap.trace.nodes[logits.index()].scope = Some(indexer);
    cap.free(scores);
    let query = cap.scratch(MAIN, "query", 0x1200, 0x400);
    let attend = cap.node(MAIN, "attend");
    cap.all(fill, Write, scores);
    cap.all(logits, Read, scores);
    cap.all(attend, Write, query);
    cap.trace.streams[1].end.joined = false;
    cap.trace.assumptions.push("page ids below 4096".into());
    cap.end()
}

#[test]
fn text() {
    let report = verify(&story()).unwrap();
    insta::assert_snapshot!(report.to_string(), @r#"
    hazard[R2]: "scores" and "query" share bytes, and nothing orders their accesses
      --> n1 `logits` reads on stream "side" in layer 2/indexer at engine.rs:11
      ::: n2 `attend` writes on stream "main" at engine.rs:12
       |
       | stream "main"                  stream "side"
       | n0 `project` ----- fork -----> |
       | |                              n1 `logits`
       | |                                reads "scores"
       | n2 `attend` <- -  missing  - - |
       |   writes "query"               |
       | no later node is after both
       |
       = buffer: b0 "scores", scratch, tag "main", at 0x1000..0x1400
       = buffer: b1 "query", scratch, tag "main", at 0x1200..0x1600
       = bytes: 0x1200..0x1400 (512 bytes)
       = help: keep "scores" until a join covers n1 `logits`: the host let go of it before that; or add a join of stream "side", after n1 `logits`, into "main" before n2 `attend`
       = or: give "query" bytes of its own
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r2

    hazard[R6]: the work of stream "side" is not joined
      --> n1 `logits` on stream "side" in layer 2/indexer at engine.rs:11
       |
       | stream "main"                    stream "side"
       | n0 `project` ------ fork ------> |
       | ... 1 node                       |
       | |                                n1 `logits`
       | end of the capture <- missing  - |
       |
       = help: join stream "side", after n1 `logits`, into "main" before the capture ends
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r6

    hazard: capture "test", 2 hazards (3 nodes, 2 edges, 3 streams, 3 accesses compared 5 times)
      = assumes: page ids below 4096
    "#);
}

#[test]
fn text_of_a_safe_capture() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 8);
    let node = cap.node(MAIN, "k");
    cap.all(node, Write, a);
    insta::assert_snapshot!(
        safe(&cap.end()).to_string(),
        @r#"safe: capture "test" (1 node, 0 edges, 3 streams, 1 access compared 0 times)"#
    );
}

#[test]
fn the_list_is_capped_and_the_count_is_not() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 8);
    for stream in [MAIN, SIDE, THIRD] {
        let node = cap.node(stream, "k");
        cap.all(node, Write, a);
    }
    cap.join(MAIN, SIDE);
    cap.join(MAIN, THIRD);
    let trace = cap.end();
    let all = verify(&trace).unwrap();
    assert_eq!((all.hazards.len(), all.hazards_total), (3, 3));
    // Three questions of the first pass, and three of the second.
    assert_eq!(all.stats.comparisons, 6);
    let options = Options {
        limit: 1,
        ..Options::default()
    };
    let capped = verify_with(&trace, &options).unwrap();
    assert_eq!((capped.hazards.len(), capped.hazards_total), (1, 3));
    assert_eq!(capped.hazards[0], all.hazards[0]);
    assert!(capped.to_string().contains("... and 2 more"));
}

#[test]
fn a_report_survives_a_file() {
    let report = verify(&story()).unwrap();
    let file = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&file).unwrap(), report);
    assert!(
        file.contains(r#""rule":"R2""#) && file.contains(r#"["0x1200","0x1400"]"#),
        "{file}"
    );
}

/// The order of the tables says nothing about the verdict.
#[test]
fn shuffled_accesses_give_the_same_report() {
    let trace = story();
    let mut reversed = trace.clone();
    reversed.accesses.reverse();
    reversed.edges.reverse();
    assert_eq!(verify(&trace).unwrap(), verify(&reversed).unwrap());
}
