//! Capture, replay and eager runs.

use streamweir::driver::ModuleImage;
use streamweir::kernel::{In, InOut, Out, twin};
use streamweir::{Device, Error, Module, kernel};

kernel! {
    /// `output[i] = input[i] + plus`
    ///
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    pub unsafe fn add(input: In<u32>, output: Out<u32>, plus: u32, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((len, 1).into())
    }
    /// `data[i] *= 2`
    ///
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    pub unsafe fn double(data: InOut<u32>, len: u32) {
        data.holds([len])?;
        Ok((len, 1).into())
    }
}

pub(crate) fn module(device: &Device) -> Module {
    let image = ModuleImage::Sim(vec![
        twin::<add>(|block, (input, output, plus, len)| {
            let i = block.index()[0] as usize;
            if i < len as usize {
                let value = block.read::<u32>(input.at(i), 1)?[0];
                block.write(output.at(i), &[value + plus])?;
            }
            Ok(())
        }),
        twin::<double>(|block, (data, len)| {
            let i = block.index()[0] as usize;
            if i < len as usize {
                let value = block.read::<u32>(data.at(i), 1)?[0];
                block.write(data.at(i), &[value * 2])?;
            }
            Ok(())
        }),
    ]);
    device.load(&image).unwrap()
}

#[test]
fn two_streams_and_a_join() {
    let device = Device::sim(7);
    let module = module(&device);
    // SAFETY: the module has the twins of these declarations.
    let (add, double) = unsafe {
        (
            module.kernel::<add>().unwrap(),
            module.kernel::<double>().unwrap(),
        )
    };
    let x = device.persistent_from("x", &[1u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", 4).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            let a = side.scratch::<u32>("a", 4)?;
            side.scope("layer 0").launch(
                &add,
                add {
                    input: &x,
                    output: &a,
                    plus: 10,
                    len: 4,
                },
            )?;
            let b = main.scratch::<u32>("b", 4)?;
            main.launch(
                &add,
                add {
                    input: &x,
                    output: &b,
                    plus: 100,
                    len: 4,
                },
            )?;
            main.launch(&double, double { data: &b, len: 4 })?;
            let seen = cap.join(&main, side)?;
            main.launch(
                &add,
                add {
                    input: seen.see(&a),
                    output: &y,
                    plus: 1000,
                    len: 4,
                },
            )?;
            Ok(())
        })
        .unwrap();
    assert!(graph.certificate().is_some(), "{}", graph.report());
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [1011, 1012, 1013, 1014]);
}
