//! A recorded node against the driver's. What the trace does not know (zeros,
//! an empty name, no parameters: a library's kernel) is not compared.

use std::fmt::Debug;

use streamweir_trace::{BlockSync, CopyNode, KernelNode, Node, NodeKind, Param, Trace};

use super::Difference;

pub(super) fn compare(trace: &Trace, declared: &Node, driver: &Node) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut property = |name: &str, declared: String, driver: String| {
        if declared != driver {
            all.push(Difference::Property {
                property: name.to_owned(),
                declared,
                driver,
            });
        }
    };
    let hex = |address: u64| format!("{address:#x}");
    match (&declared.kind, &driver.kind) {
        (NodeKind::Kernel(a), NodeKind::Kernel(b)) => {
            launch(a, b, &mut property);
            params(trace, a, b, &mut all);
        }
        (NodeKind::Memcpy(a), NodeKind::Memcpy(b)) => {
            if *a != Default::default() {
                let (a, b) = (a.flattened(), b.flattened());
                property("destination", hex(a.to), hex(b.to));
                property("source", hex(a.from), hex(b.from));
                property("length", a.bytes.to_string(), b.bytes.to_string());
                property("rows", a.rows.to_string(), b.rows.to_string());
                property("pitches", pitches(&a), pitches(&b));
            }
        }
        (NodeKind::Memset(a), NodeKind::Memset(b)) => {
            if *a != Default::default() {
                let (a, b) = (a.flattened(), b.flattened());
                property("destination", hex(a.to), hex(b.to));
                property("length", a.bytes.to_string(), b.bytes.to_string());
                property("rows", a.rows.to_string(), b.rows.to_string());
                property("pitch", a.pitch.to_string(), b.pitch.to_string());
                property("element", a.element.to_string(), b.element.to_string());
                property("value", a.value.to_string(), b.value.to_string());
            }
        }
        (a, b) if a == b => {}
        (a, b) => all.push(Difference::Kind {
            declared: a.word().to_owned(),
            driver: b.word().to_owned(),
        }),
    }
    all
}

fn pitches(copy: &CopyNode) -> String {
    format!("{} to {}", copy.from_pitch, copy.to_pitch)
}

fn launch(a: &KernelNode, b: &KernelNode, property: &mut impl FnMut(&str, String, String)) {
    fn text(value: impl Debug) -> String {
        format!("{value:?}")
    }
    if !a.function.is_empty() {
        property("function", a.function.clone(), b.function.clone());
    }
    // A launch of no blocks does not exist, so a known grid says that the
    // shared memory is known too.
    if a.grid != [0; 3] {
        property("grid", text(a.grid), text(b.grid));
        property("shared bytes", text(a.shared_bytes), text(b.shared_bytes));
    }
    // What a kernel was compiled with is the driver's to tell.
    if a.cluster != [0; 3] {
        property("cluster", text(a.cluster), text(b.cluster));
    }
    if a.block != [0; 3] {
        property("block", text(a.block), text(b.block));
    }
    // Whether blocks spin the driver does not know, but how it launches them.
    let cooperative = |kernel: &KernelNode| match kernel.sync {
        BlockSync::Cooperative => "cooperative",
        BlockSync::Independent | BlockSync::Spin => "plain",
    };
    if a.grid != [0; 3] {
        property(
            "launch",
            cooperative(a).to_owned(),
            cooperative(b).to_owned(),
        );
    }
}

fn params(trace: &Trace, a: &KernelNode, b: &KernelNode, all: &mut Vec<Difference>) {
    // A launch of which nothing is known says nothing of its parameters either.
    if a.params.is_empty() && (a.function.is_empty() || a.grid == [0; 3]) {
        return;
    }
    for (place, param) in (0_u32..).zip(&a.params) {
        let driver = b.params.iter().find(|other| other.offset == param.offset);
        if driver.is_none_or(|driver| driver.bytes != param.bytes) {
            all.push(differing(trace, place, Some(param), driver));
        }
    }
    for (place, driver) in (0_u32..).zip(&b.params) {
        if !a.params.iter().any(|param| param.offset == driver.offset) {
            all.push(differing(trace, place, None, Some(driver)));
        }
    }
}

fn differing(
    trace: &Trace,
    place: u32,
    declared: Option<&Param>,
    driver: Option<&Param>,
) -> Difference {
    let is_pointer = declared.is_some_and(|param| param.pointer.is_some());
    let text = |param: &Param| match param.address() {
        Some(address) if is_pointer => format!("{address:#x}"),
        _ => param
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    };
    let address = driver.and_then(Param::address);
    Difference::Param {
        place,
        name: declared
            .or(driver)
            .map_or_else(String::new, |param| param.name.clone()),
        offset: declared.or(driver).map_or(0, |param| param.offset),
        declared: declared.map(text),
        driver: driver.map(text),
        lands_in: trace
            .buffers
            .iter()
            .filter(|buffer| address.is_some_and(|at| buffer.range.contains_byte(at)))
            .map(|buffer| buffer.name.clone())
            .collect(),
    }
}
