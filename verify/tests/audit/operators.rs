//! What the operator log of a dump is taken to mean, shape by shape.

use streamweir_trace::AccessMode;
use streamweir_verify::audit::Mode;
use streamweir_verify::{Rule, Verdict};

use crate::build::{Dumped, MAIN, SIDE, kernel, tensor, view};

const X: u64 = 0x10000;
const A: u64 = 0x20000;
const B: u64 = 0x30000;

/// `a = f(x)`, `a` dropped, `b = g(x)` takes its bytes while a side stream may
/// still read `a`.
fn recycled(side_joined: bool) -> Dumped {
    let edges: &[(u32, u32)] = if side_joined {
        &[(0, 1), (1, 2)]
    } else {
        &[(0, 1), (0, 2)]
    };
    Dumped::default()
        .held(&[(X, 512), (B, 512)])
        .alloc(A, 512)
        .free(A, 512)
        .alloc(A, 512)
        .op(
            "aten.mul.Tensor",
            MAIN,
            &[kernel(&[X, A])],
            &[tensor(X, 512, false), tensor(A, 512, true)],
        )
        .op(
            "aten.copy_.default",
            SIDE,
            &[kernel(&[A, B])],
            &[
                tensor(B, 512, true),
                tensor(A, 512, false),
                tensor(B, 512, true),
            ],
        )
        .op(
            "aten.add.Tensor",
            MAIN,
            &[kernel(&[X, A])],
            &[tensor(X, 512, false), tensor(A, 512, true)],
        )
        .edges(edges)
}

#[test]
fn one_address_is_two_buffers_when_it_was_given_out_twice() {
    let (audited, report) = recycled(false).audit(Mode::Auto);
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::SharedBytes, "{report}");
    assert!(report.hazards[0].proven);
    let at_a = audited.trace.buffers.iter().filter(|b| b.range.start == A);
    assert_eq!(at_a.count(), 2);
    let (_, report) = recycled(true).audit(Mode::Auto);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
}

#[test]
fn an_argument_altered_in_place_is_the_block_that_was_there() {
    let dumped = Dumped::default()
        .held(&[(X, 512)])
        .alloc(A, 512)
        .free(A, 512)
        .alloc(A, 512)
        .op(
            "aten.mul.Tensor",
            MAIN,
            &[kernel(&[X, A])],
            &[tensor(X, 512, false), tensor(A, 512, true)],
        )
        .op(
            "aten.relu_.default",
            MAIN,
            &[kernel(&[A])],
            &[tensor(A, 512, true), tensor(A, 512, true)],
        )
        // Of an operator that is not aten's, named once: nothing given out
        // before the next operator's result belongs to it.
        .op(
            "my.scale.default",
            MAIN,
            &[kernel(&[A])],
            &[tensor(A, 512, true)],
        )
        .op(
            "aten.neg.default",
            MAIN,
            &[kernel(&[X, A])],
            &[tensor(X, 512, false), tensor(A, 512, true)],
        )
        .edges(&[(0, 1), (1, 2), (2, 3)]);
    let (audited, _) = dumped.audit(Mode::Auto);
    let buffers: Vec<_> = (audited.trace.accesses.iter())
        .filter(|access| access.mode == AccessMode::Write)
        .map(|access| access.buffer)
        .collect();
    assert_eq!(buffers[0], buffers[1]);
    assert_eq!(buffers[1], buffers[2]);
    assert_ne!(buffers[2], buffers[3]);
}

/// Two streams write views of one storage.
fn views(first: (u64, u64), second: (u64, u64)) -> Verdict {
    let op = |dumped: Dumped, stream, (at, extent): (u64, u64)| {
        let out = view(X + at, extent, X, 512, true);
        dumped.op(
            "aten.fill_.Scalar",
            stream,
            &[kernel(&[X + at])],
            &[out.clone(), out],
        )
    };
    let dumped = Dumped::default().held(&[(X, 512)]);
    let dumped = op(op(dumped, MAIN, first), SIDE, second);
    dumped.audit(Mode::Auto).1.verdict
}

#[test]
fn views_with_gaps_are_not_proven_to_meet() {
    // Two halves.
    assert_eq!(views((0, 256), (256, 256)), Verdict::Safe);
    // Columns, or rows that overlap: the log does not say.
    assert_eq!(views((0, 480), (32, 480)), Verdict::Possible);
    // The same first byte, the same last byte, or all of it.
    assert_eq!(views((0, 480), (0, 256)), Verdict::Hazard);
    assert_eq!(views((0, 480), (32, 448)), Verdict::Hazard);
    assert_eq!(views((0, 512), (32, 64)), Verdict::Hazard);
}

#[test]
fn a_tensor_that_lends_its_shape_is_not_touched() {
    let dumped = Dumped::default()
        .held(&[(X, 512)])
        .alloc(A, 512)
        .op(
            "aten.relu_.default",
            SIDE,
            &[kernel(&[X])],
            &[tensor(X, 512, true), tensor(X, 512, true)],
        )
        .op(
            "aten.zeros_like.default",
            MAIN,
            &[kernel(&[A])],
            &[tensor(X, 512, false), tensor(A, 512, true)],
        );
    let (audited, report) = dumped.audit(Mode::Auto);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(
        audited
            .trace
            .assumptions
            .iter()
            .any(|line| line.starts_with("1 times an operator names")),
        "{:?}",
        audited.trace.assumptions
    );
}

/// Two products on two streams, each with a library workspace.
fn workspaces(first: u64, second: u64) -> Dumped {
    Dumped::default()
        .held(&[(X, 512), (0x50000, 4096), (0x60000, 4096)])
        .event("alloc", A, 512, MAIN)
        .event("alloc", B, 512, SIDE)
        .op(
            "aten.mm.default",
            MAIN,
            &[kernel(&[X, first, A]), kernel(&[first, A])],
            &[tensor(X, 512, false), tensor(A, 512, true)],
        )
        .op(
            "aten.mm.default",
            SIDE,
            &[kernel(&[X, second, B]), kernel(&[second, B])],
            &[tensor(X, 512, false), tensor(B, 512, true)],
        )
        .edges(&[(0, 1), (2, 3)])
}

#[test]
fn a_workspace_that_no_operator_names_is_possible_and_no_more() {
    let (audited, report) = workspaces(0x50000, 0x50000).audit(Mode::Auto);
    assert_eq!(audited.trace.possible.len(), 4);
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert!(report.hazards.iter().all(|hazard| !hazard.proven));
    let (_, report) = workspaces(0x50000, 0x60000).audit(Mode::Auto);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(!report.assumptions.is_empty());
}

#[test]
fn memory_let_go_during_the_capture_is_known_by_nobody() {
    let dumped = Dumped::default().free(X, 512).alloc(A, 512).op(
        "aten.mul.Tensor",
        MAIN,
        &[kernel(&[X, A])],
        &[tensor(X, 512, false), tensor(A, 512, true)],
    );
    // In a pool of captured graphs it stays where it is.
    let (_, report) = dumped.audit(Mode::Auto);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    let general = dumped.json().replace(r#""pool":[1,0]"#, r#""pool":[0,0]"#);
    let audit = streamweir_verify::audit::audit_json(
        general.as_bytes(),
        Mode::Auto,
        &streamweir_verify::Options::default(),
    )
    .expect("a verdict");
    assert_eq!(audit.report.verdict, Verdict::Hazard, "{}", audit.report);
    assert_eq!(audit.report.hazards[0].rule, Rule::UnknownMemory);
}

#[test]
fn without_an_operator_log_words_are_possible() {
    let dumped = Dumped::default().held(&[(X, 512), (A, 512)]).op(
        "nothing",
        MAIN,
        &[kernel(&[X, A]), kernel(&[X, A])],
        &[],
    );
    let bare = dumped.json().replace(r#""ops":[{"#, r#""ignored":[{"#);
    let options = streamweir_verify::Options::default();
    let audit = |text: &str| {
        streamweir_verify::audit::audit_json(text.as_bytes(), Mode::Auto, &options)
            .expect("a verdict")
            .report
    };
    let report = audit(&bare);
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    // One after the other they are safe, as far as pointers can tell.
    let report = audit(&bare.replace(r#""edges":[]"#, r#""edges":[[0,1]]"#));
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(report.assumptions.len() >= 2, "{report}");
    // Freed memory is possible R4.
    let freed = bare.replace(
        r#"[65536,512,"active_allocated"]"#,
        r#"[65536,512,"inactive"]"#,
    );
    let report = audit(&freed.replace(r#""edges":[]"#, r#""edges":[[0,1]]"#));
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert!(
        report.hazards.iter().all(|h| h.rule == Rule::OwnerGone),
        "{report}"
    );
}

/// A fill of which the dump does not say where, named by an operator or not.
#[test]
fn a_fill_of_unknown_memory_is_not_analysed() {
    let fill = |operands: &str| {
        let node = format!(r#""type":2{operands}"#);
        Dumped::default().held(&[(X, 512)]).op(
            "aten.zero_.default",
            MAIN,
            &[node],
            &[tensor(X, 512, true)],
        )
    };
    for mode in [Mode::Operators, Mode::Pointers] {
        for missing in ["", r#","bytes":512"#, r#","dst":65536"#] {
            let (audited, report) = fill(missing).audit(mode);
            assert_eq!(audited.trace.accesses, [], "{missing}");
            let [line] = &report.not_analysed[..] else {
                panic!("{mode:?} {missing}: {report}");
            };
            assert!(line.contains("memset (n0 `memset`)"), "{line}");
        }
        let (audited, report) = fill(r#","dst":65536,"bytes":512"#).audit(mode);
        assert_eq!(audited.trace.accesses.len(), 1);
        assert_eq!(report.not_analysed, [""; 0], "{mode:?}");
    }
}
