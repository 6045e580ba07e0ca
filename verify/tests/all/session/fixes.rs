//! Which change is suggested, and where it would do harm.

use streamweir_verify::Fix;

use super::*;
use crate::build::{Read, Write};

/// An order between a reader and what spoils its input would make the loss
/// certain: the fix is another one.
#[test]
fn a_fix_does_not_make_a_loss_certain() {
    let mut rig = Rig::new();
    let out = rig.buffer("out");
    let host = rig.host_buffer("host");
    let g = rig.graph("G", &[(Write, out)]);
    let first = rig.launch(ONE, g);
    rig.order(ONE, TWO);
    rig.launch(ONE, g);
    let fetch = rig.copy(TWO, "fetch", out, host);
    rig.reads_from(fetch, first);
    let hazard = only(&rig.session);
    assert!(matches!(hazard.fix, Fix::ReadEarlier { .. }), "{hazard}");
}

/// A reader that also takes what came in between cannot be moved in front of it,
/// nor one whose own output would meet other work.
#[test]
fn a_reader_is_moved_only_where_nothing_notices() {
    for (also_reads, writes_over, moves) in [
        (false, false, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let y = rig.buffer("y");
        let a = rig.graph("A", &[(Write, out)]);
        let first = rig.launch(ONE, a);
        rig.launch(ONE, a);
        rig.eager(ONE, "mid", &[(Write, y)]);
        let mut uses = vec![(Read, out)];
        if also_reads {
            uses.push((Read, y));
        }
        if writes_over {
            uses.push((Write, y));
        }
        let reader = rig.eager(ONE, "reader", &uses);
        rig.reads_from(reader, first);
        let report = verify_session(&rig.session).unwrap();
        assert_eq!(report.hazards_total, 1, "{report}");
        let fix = &report.hazards[0].fix;
        assert_eq!(matches!(fix, Fix::ReadEarlier { .. }), moves, "{fix:?}");
    }
}
