//! Lengths that do not fit, pointers and copies that cannot be.

use super::*;

#[test]
fn lengths_are_checked() {
    let error = spoilt(|cap, _, x| {
        let main = cap.origin();
        let short = main.scratch::<u32>("short", 2)?;
        main.copy(&short, x)
    });
    let text = error.to_string();
    for word in ["\"short\"", "2 elements", "\"x\"", "4 elements"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    let reversed = std::ops::Range { start: 3, end: 2 };
    for range in [3..5, 5..5, reversed] {
        for error in [
            spoilt(|_, _, x| part(x, range.clone()).map(drop)),
            // SAFETY: nothing is launched over it.
            spoilt(|_, _, x| unsafe { narrow(x, range.clone()) }.map(drop)),
        ] {
            assert!(
                matches!(&error, Error::Length { buffer, has: 4, .. } if buffer == "x"),
                "{error}"
            );
        }
    }
    let error = spoilt(|_, _, x| part(part(x, 1..3)?, 1..3).map(drop));
    assert!(matches!(error, Error::Length { has: 2, .. }), "{error}");
    // Three words are no whole number of longer ones, an odd word begins none, and
    // of a narrowed buffer it is not known where it begins.
    for error in [
        spoilt(|_, _, x| cast::<u64, _>(part(x, 0..3)?).map(drop)),
        spoilt(|_, _, x| cast::<u64, _>(part(x, 1..3)?).map(drop)),
        // SAFETY: nothing is launched over it.
        spoilt(|_, _, x| cast::<u64, _>(unsafe { narrow(x, 2..4) }?).map(drop)),
    ] {
        assert!(
            matches!(&error, Error::Length { buffer, .. } if buffer == "x"),
            "{error}"
        );
        assert!(error.to_string().contains("8 bytes"), "{error}");
    }
    let error = spoilt(|cap, _, _| {
        let main = cap.origin();
        main.scratch::<u32>("huge", usize::MAX / 2).map(drop)
    });
    assert!(
        matches!(&error, Error::TooLarge { buffer, .. } if buffer == "huge"),
        "{error}"
    );
    let device = Device::sim(1);
    let x = device.persistent::<u32>("x", 2).unwrap();
    let error = x.upload(&[1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Length { has: 2, .. }), "{error}");
}

#[test]
fn buffers_and_parts_of_no_bytes_are_valid() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent::<u32>("x", 0).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("empty", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", 0)?;
            let b = main.scratch::<u32>("b", 0)?;
            assert_ne!(a.range()?.start, b.range()?.start);
            main.fill(&a, 1)?;
            main.copy(&b, &a)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: part(&b, 0..0)?,
                    more: 1,
                    len: 0,
                },
            )
        })
        .unwrap();
    assert_eq!(graph.trace().nodes.len(), 1);
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    device.synchronize().unwrap();
}

#[test]
fn pointers_that_cannot_be_adopted() {
    let device = Device::sim(1);
    let adopt = |address, len| {
        // SAFETY: the buffer is refused, or not used.
        unsafe { Persistent::<u32>::from_raw(&device, address, len, "kv", std::sync::Arc::new(())) }
    };
    for (address, len) in [(0, 4), (0x1001, 4), (u64::MAX - 3, 4)] {
        let error = adopt(address, len).unwrap_err();
        assert!(
            matches!(&error, Error::BadPointer { buffer, .. } if buffer == "kv"),
            "{error}"
        );
    }
    let kept = adopt(0x1000, 4).unwrap();
    let error = adopt(0x1008, 4).unwrap_err();
    assert!(matches!(error, Error::Registry(_)), "{error}");
    drop(kept);
    adopt(0x1008, 4).unwrap();
}

#[test]
fn a_copy_onto_the_bytes_it_reads_is_refused() {
    let (device, _) = sim(1);
    let x = device.persistent::<u32>("x", 8).unwrap();
    let error = device
        .capture::<_, Error>("overlap", |cap| {
            let main = cap.origin();
            // The halves are apart, and that is fine.
            main.copy(part(&x, 0..4)?, part(&x, 4..8)?)?;
            main.copy(part(&x, 0..4)?, part(&x, 2..6)?)
        })
        .unwrap_err();
    assert!(matches!(error, Error::BadCopy { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("from \"x\" to \"x\" would overwrite what it reads"),
        "{error}"
    );
}
