//! The report in the README is what its program prints with the join too late.

use streamweir::driver::ModuleImage;
use streamweir::kernel::{In, Out, twin};
use streamweir::{Device, Error, kernel};

kernel! {
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    unsafe fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((len, 1).into())
    }
}

#[test]
fn the_report_in_the_readme_is_real() {
    let device = Device::sim(1);
    let twin = twin::<scale>(|_, _| Ok(())); // nothing is replayed
    let module = device.load(&ModuleImage::Sim(vec![twin])).unwrap();
    // SAFETY: the twin touches nothing.
    let scale = unsafe { module.kernel::<scale>() }.unwrap();
    let keys = device.persistent::<f32>("keys", 4).unwrap();
    let out = device.persistent::<f32>("out", 4).unwrap();

    let refused = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let indexer = cap.fork(&main, "indexer")?;
            let scores = indexer.scratch::<f32>("scores", 4)?;
            indexer.scope("layer 2/indexer").launch(
                &scale,
                scale {
                    input: &keys,
                    output: &scores,
                    factor: 0.5,
                    len: 4,
                },
            )?;

            let query = main.scratch::<f32>("query", 4)?;
            main.launch(
                &scale,
                scale {
                    input: &keys,
                    output: &query,
                    factor: 3.0,
                    len: 4,
                },
            )?;

            main.scope("layer 2/attention").launch(
                &scale,
                scale {
                    input: &scores,
                    output: &out,
                    factor: 10.0,
                    len: 4,
                },
            )?;
            cap.join(&main, indexer)?;
            Ok(())
        })
        .unwrap_err();

    let printed = refused.to_string();
    let readme = include_str!("../../README.md");
    assert!(
        readme.contains(&format!("```text\n{}\n```", printed.trim_end())),
        "the README shows another report than\n{printed}"
    );
}
