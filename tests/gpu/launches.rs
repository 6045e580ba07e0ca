//! Launches beyond the plain one, functions of the host, steps that are updated in place,
//! and kernels that a user compiles.

use streamweir::driver::{LaunchShape, ModuleImage};
use streamweir::kernel;
use streamweir::kernel::{BlockSync, InOut};
use streamweir::kernels::compile::{Compiler, Program};
use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::testing::{add_one, fill_words};
use streamweir::trace::NodeKind;
use streamweir::{CaptureOptions, Device, Error, LoadedKernel, Persistent, Verify};

use super::{Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    ("cooperative_and_cluster_launches_are_proved", together),
    ("a_function_of_the_host_runs_in_its_turn", host_function),
    ("a_changed_step_is_updated_in_place", changed_step),
    ("a_template_of_a_user_is_compiled_and_bound", user_kernel),
];

const LEN: usize = 4096;
const N: u32 = LEN as u32;

mod cooperative {
    use super::{InOut, kernel};

    kernel! {
        /// The kernel of that symbol, launched cooperatively.
        ///
        /// # Safety
        /// A thread touches its own word, and none from `len` on.
        #[blocks(Cooperative)]
        pub(super) unsafe fn add_one(data: InOut<u32>, len: u32) {
            data.holds([len])?;
            Ok((len.div_ceil(256), 256).into())
        }
    }
}

kernel! {
    /// `data[i] += N`, of which `N` is a constant of the template.
    ///
    /// # Safety
    /// A thread touches its own word, and none from `len` on.
    unsafe fn add_more(data: InOut<u32>, len: u32) {
        data.holds([len])?;
        Ok((len.div_ceil(256), 256).into())
    }
}

fn proved(name: &str) -> CaptureOptions {
    CaptureOptions::new(name).verify(Verify::Prove)
}

fn together(device: &Device, image: &Image) -> Outcome {
    let module = device.load(image)?;
    // SAFETY: the code of the symbol is what either declaration says.
    let bump: LoadedKernel<add_one> = unsafe { module.kernel() }?;
    // SAFETY: as above.
    let coop: LoadedKernel<cooperative::add_one> = unsafe { module.kernel() }?;
    let [x, y] = [
        device.persistent::<u32>("x", LEN)?,
        device.persistent("y", LEN)?,
    ];
    let clusters = device.info().capability >= (9, 0);
    let (graph, ()) = device.capture::<_, Error>(proved("together"), |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        side.launch(&coop, cooperative::add_one { data: &x, len: N })?;
        let shape = LaunchShape::from((N / 256, 256)).priority(-1);
        let shape = if clusters {
            shape.cluster([2, 1, 1])
        } else {
            shape
        };
        let args = add_one { data: &y, len: N };
        // SAFETY: a thread for each word.
        unsafe { main.launch_unchecked(&bump, shape, args, &[]) }?;
        cap.join(&main, side).map(drop)
    })?;
    let cooperative = |kind: &NodeKind| matches!(kind, NodeKind::Kernel(kernel) if kernel.sync == BlockSync::Cooperative);
    let found = graph
        .trace()
        .nodes
        .iter()
        .filter(|node| cooperative(&node.kind));
    ensure(found.count() == 1, || "no cooperative node".into())?;
    let stream = device.stream("replay")?;
    for _ in 0..50 {
        graph.replay(&stream)?;
    }
    for buffer in [&x, &y] {
        let right = buffer.download()?.iter().all(|&value| value == 50);
        ensure(right, || format!("\"{}\" is wrong", buffer.name()))?;
    }
    Ok(())
}

fn host_function(device: &Device, image: &Image) -> Outcome {
    let bump = image.load(device)?.kernel::<add_one>()?;
    let out = device.persistent::<u32>("out", LEN)?;
    let mut x = device.pinned::<u32>("x", LEN)?;
    let mut y = device.pinned::<u32>("y", LEN)?;
    let (graph, ()) = device.capture::<_, Error>(proved("host"), |cap| {
        let main = cap.origin();
        let data = main.scratch::<u32>("data", LEN)?;
        main.copy(&data, &out)?;
        main.launch(
            &bump,
            add_one {
                data: &data,
                len: N,
            },
        )?;
        main.download(&mut x, &data)?;
        main.host_call("plus one", &x, &mut y, |x, y| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1);
        })?;
        main.upload(&out, &y)
    })?;
    let streams = [device.stream("a")?, device.stream("b")?];
    for replay in 0..100 {
        graph.replay(&streams[replay % 2])?;
    }
    let right = out.download()?.iter().all(|&value| value == 200);
    ensure(right, || "the function ran out of turn".into())?;
    ensure(y.hold()?.iter().all(|&value| value == 200), || {
        "its output is wrong".into()
    })
}

fn changed_step(device: &Device, image: &Image) -> Outcome {
    let fill = image.load(device)?.kernel::<fill_words>()?;
    let out = device.persistent::<u32>("out", LEN)?;
    let log = device.persistent::<u32>("log", LEN)?;
    let step = |table: &Persistent<u32>, value: u32| {
        let (fill, out, table) = (fill.clone(), out.clone(), table.clone());
        move |cap: &streamweir::Capture| -> Result<(), Error> {
            let main = cap.origin();
            main.launch(
                &fill,
                fill_words {
                    data: &table,
                    len: N,
                    value,
                },
            )?;
            main.copy(&out, &table)
        }
    };
    let stream = device.stream("replay")?;
    let first = device.persistent::<u32>("table", LEN)?;
    let (mut graph, ()) = device.capture::<_, Error>(proved("step"), step(&first, 0))?;
    drop(first);
    let (copy, ()) = device.capture::<_, Error>("copy", |cap| cap.origin().copy(&log, &out))?;
    for value in 1..=50 {
        graph.replay(&stream)?;
        copy.replay(&stream)?;
        // While both may be in flight.
        let table = device.persistent::<u32>("table", LEN)?;
        device.recapture::<_, Error>(&mut graph, proved("step"), step(&table, value))?;
        drop(table);
        let before = log.download()?;
        ensure(before.iter().all(|&found| found == value - 1), || {
            format!("the replay before update {value} was changed by it")
        })?;
    }
    let refused =
        device.recapture::<_, Error>(&mut graph, "other", |cap| cap.origin().fill(&out, 1));
    ensure(matches!(refused, Err(Error::NotUpdated { .. })), || {
        format!("{refused:?}")
    })?;
    graph.replay(&stream)?;
    ensure(out.download()?.iter().all(|&found| found == 50), || {
        "a refused update has changed the graph".into()
    })
}

fn user_kernel(device: &Device, _: &Image) -> Outcome {
    let program = Program {
        name: "mine.cu".into(),
        source: "template <int N> __global__ void add_more(unsigned* data, unsigned len) {\n\
                 unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < len) data[i] += N * FACTOR; }"
            .into(),
        headers: Vec::new(),
        toolkit_headers: false,
    };
    let compiler = Compiler::new(device.info().capability).define("FACTOR", "10");
    let compiled = compiler.name("add_more<3>").compile(&program)?;
    let module = device.load(&ModuleImage::Cuda(compiled.cubin))?;
    // SAFETY: the source above does what the declaration says.
    let kernel = unsafe { module.kernel_named::<add_more>(&compiled.names["add_more<3>"]) }?;
    let data = device.persistent::<u32>("data", LEN)?;
    let (graph, ()) = device.capture::<_, Error>(proved("mine"), |cap| {
        cap.origin().launch(
            &kernel,
            add_more {
                data: &data,
                len: N,
            },
        )
    })?;
    graph.replay(&device.stream("replay")?)?;
    ensure(data.download()?.iter().all(|&value| value == 30), || {
        "the kernel is another".into()
    })
}
