//! Capture, replay and eager runs.

use streamweir::driver::ModuleImage;
use streamweir::kernel::{In, InOut, Out, twin};
use streamweir::{Device, Error, Module, kernel};

kernel! {
    /// `output[i] = input[i] + plus`
    pub fn add(input: In<u32>, output: Out<u32>, plus: u32, len: u32);
    /// `data[i] *= 2`
    pub fn double(data: InOut<u32>, len: u32);
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
    let (add, double) = (
        module.kernel::<add>().unwrap(),
        module.kernel::<double>().unwrap(),
    );
    let x = device.persistent_from("x", &[1u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", 4).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            let a = side.scratch::<u32>("a", 4)?;
            side.scope("layer 0")
                .launch(&add, (4, 1), (&x, &a, 10, 4))?;
            let b = main.scratch::<u32>("b", 4)?;
            main.launch(&add, (4, 1), (&x, &b, 100, 4))?;
            main.launch(&double, (4, 1), (&b, 4))?;
            let seen = cap.join(&main, side)?;
            main.launch(&add, (4, 1), (seen.see(&a), &y, 1000, 4))?;
            Ok(())
        })
        .unwrap();
    assert!(graph.certificate().is_some(), "{}", graph.report());
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [1011, 1012, 1013, 1014]);
}
