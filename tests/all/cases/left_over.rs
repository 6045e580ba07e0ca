//! Words of parameters that their author says are not used.

use super::*;

/// A call whose kernel has addresses of "z" beside its own, with or without a word on it.
fn captured(left_over: bool, fill: bool) -> Result<(Graph, ()), Error> {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let (library, driver, other) = (rig.library("sum"), rig.driver.clone(), z.range().start);
    rig.beside(&z, "stale", |side| {
        let touches = [writes(&y)];
        let call = ForeignCall::new("library", &touches);
        let call = match left_over {
            true => call.left_over("unused fields of the descriptor"),
            false => call,
        };
        // SAFETY: nothing is replayed.
        unsafe {
            side.foreign_with::<_, Error>(call, |raw, at| {
                library.launch(raw, &[other, other + 8, at.touched[0]], &[N]);
                match fill {
                    true => driver.fill_async(raw, other, 1, 16).map_err(foreign),
                    false => Ok(()),
                }
            })
        }
    })
}

#[test]
fn words_that_are_left_over_are_one_assumption_with_count_and_buffers() {
    let (graph, ()) = captured(false, false).unwrap();
    assert_eq!(graph.report().verdict, Verdict::Possible);
    let (graph, ()) = captured(true, false).unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
    let lines = assumed(&graph, "left over");
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["`library` at", "2 words", "\"z\"", "unused fields"] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
    assert!(
        graph
            .certificate()
            .unwrap()
            .about
            .assumptions
            .contains(&lines[0])
    );
}

/// Operands are exact, so no word of anybody's makes them less than an access.
#[test]
fn operands_are_never_left_over() {
    is_refused(captured(true, true), Rule::UnorderedConflict, "z");
}
