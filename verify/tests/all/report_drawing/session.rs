//! Sessions as they are printed: steps instead of nodes, the host as a stream.

use streamweir_verify::verify_session;

use crate::build::{Read, Write};
use crate::session::{ONE, Rig, TWO};

fn printed(rig: &Rig) -> String {
    verify_session(&rig.session).unwrap().to_string()
}

/// R5: two graphs of one arena, with an event that is recorded too early.
#[test]
fn two_graphs_in_flight_together() {
    let mut rig = Rig::new();
    let cache = rig.buffer("kv cache");
    let prefill = rig.graph("prefill", &[(Write, cache)]);
    let decode = rig.graph("decode", &[(Read, cache)]);
    rig.order(ONE, TWO);
    rig.launch(ONE, prefill);
    rig.eager(TWO, "sample", &[]);
    rig.launch(TWO, decode);
    insta::assert_snapshot!(printed(&rig), @r#"
    hazard[R5]: two graphs that touch the same bytes of "kv cache" may be in flight together
      --> n2 `prefill` writes on stream "one"
      ::: n4 `decode` reads on stream "two"
       |
       | stream "one"                      stream "two"
       | n0 `record` ------- fork -------> |
       | |                                 ... 2 nodes
       | n2 `prefill`                      |
       |   writes "kv cache"               |
       | | - - - - -  missing - - - - - -> n4 `decode`
       | |                                   reads "kv cache"
       | no later node is after both
       |
       = buffer: b0 "kv cache", device memory, at 0x1000..0x1040
       = bytes: 0x1000..0x1040 (64 bytes)
       = help: record an event on stream "one" behind n2 `prefill`, and let stream "two" wait for it in front of n4 `decode`
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r5

    hazard: session "test", 1 hazard (5 steps, 4 edges, 3 streams, 2 accesses compared 2 times)
    "#);
}

/// R5: all is ordered, and the output is gone before it is read.
#[test]
fn an_output_that_is_overwritten() {
    let mut rig = Rig::new();
    let out = rig.buffer("logits");
    let decode = rig.graph("decode", &[(Write, out)]);
    let first = rig.launch(ONE, decode);
    rig.launch(ONE, decode);
    rig.order(ONE, TWO);
    let reader = rig.eager(TWO, "sample", &[(Read, out)]);
    rig.reads_from(reader, first);
    insta::assert_snapshot!(printed(&rig), @r#"
    hazard[R5]: n1 `decode` overwrites "logits" before n4 `sample` has read there what n0 `decode` wrote
      --> n1 `decode` writes on stream "one"
      ::: n4 `sample` reads on stream "two"
       |
       | stream "one"                    stream "two"
       | n0 `decode`                     |
       |   writes "logits"               |
       | n1 `decode`                     |
       |   writes "logits"               |
       | ... 1 node                      ... 1 node
       | | ---------- before ----------> n4 `sample`
       | |                                 reads "logits"
       |
       = buffer: b0 "logits", device memory, at 0x1000..0x1040
       = bytes: 0x1000..0x1040 (64 bytes)
       = help: move n4 `sample` in front of n1 `decode`
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r5

    hazard: session "test", 1 hazard (5 steps, 5 edges, 3 streams, 3 accesses compared 2 times)
    "#);
}

/// R12: the host fills a pinned buffer that may still be copied.
#[test]
fn a_batch_filled_in_too_early() {
    let mut rig = Rig::new();
    let staged = rig.host_buffer("pinned tokens");
    let tokens = rig.buffer("tokens");
    let decode = rig.graph("decode", &[(Read, tokens)]);
    for batch in ["fill 1", "fill 2"] {
        rig.host(batch, Write, staged);
        rig.copy(ONE, "stage", staged, tokens);
        rig.launch(ONE, decode);
    }
    insta::assert_snapshot!(printed(&rig), @r#"
    hazard[R12]: `fill 2` fills "pinned tokens" again while `stage` may still read it
      --> n1 `stage` reads on stream "one"
      ::: n3 `fill 2` writes on stream "host"
       |
       | stream "host"                          stream "one"
       | n0 `fill 1` --------- fork ----------> |
       | |                                      n1 `stage`
       | |                                        reads "pinned tokens"
       | n3 `fill 2` <- - - -  missing  - - - - |
       |   writes "pinned tokens"               |
       | |                                      ... 1 node
       | | -------------- join ---------------> n4 `stage`
       |
       = buffer: b0 "pinned tokens", host memory, at 0x1000..0x1040
       = bytes: 0x1000..0x1040 (64 bytes)
       = help: record an event on stream "one" behind n1 `stage`, and let the host wait for it before n3 `fill 2`
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r12

    hazard: session "test", 1 hazard (6 steps, 9 edges, 3 streams, 8 accesses compared 10 times)
    "#);
}
