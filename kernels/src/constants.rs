//! Constants that CUDA sources and launch shapes share.
//!
//! Each is written once, in Rust, beside what it belongs to, by [`shared!`]. The
//! CUDA side includes all of them as one header, [`FILE`], which is written from
//! these values when the program is put together. So a source and the shape that
//! it is launched in cannot disagree; a test refuses a source that writes one of
//! them again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name by which sources include the header.
pub(crate) const FILE: &str = "host.cuh";

/// The constants of one CUDA namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    pub(crate) namespace: &'static str,
    pub(crate) values: &'static [(&'static str, Value)],
}

/// A value of one of the types that both sides have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    U32(u32),
    F32(f32),
}

impl Value {
    pub(crate) const fn u32(value: u32) -> Self {
        Self::U32(value)
    }

    pub(crate) const fn f32(value: f32) -> Self {
        Self::F32(value)
    }
}

/// Constants that sources see by the same names in a namespace, which here is the
/// constant `$list` of type [`Constants`].
macro_rules! shared {
    ($(#[$about:meta])* $list_vis:vis $list:ident = $namespace:ident {
        $($(#[$doc:meta])* $vis:vis $name:ident: $ty:ident = $value:expr;)+
    }) => {
        $($(#[$doc])* $vis const $name: $ty = $value;)+

        $(#[$about])*
        $list_vis const $list: $crate::constants::Constants = $crate::constants::Constants {
            namespace: stringify!($namespace),
            values: &[$((stringify!($name), $crate::constants::Value::$ty($name)),)+],
        };
    };
}
pub(crate) use shared;

/// The header. A namespace that several kernels name is written once.
pub(crate) fn header(constants: impl IntoIterator<Item = Constants>) -> String {
    let by_name: BTreeMap<_, _> = constants
        .into_iter()
        .map(|constants| (constants.namespace, constants.values))
        .collect();
    let mut text = String::from("// Written by the host: src/constants.rs.\n\n#pragma once\n");
    for (namespace, values) in by_name {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\nnamespace {namespace} {{");
        for (name, value) in values {
            let _ = match value {
                Value::U32(value) => writeln!(text, "constexpr unsigned int {name} = {value}u;"),
                // The shortest digits that are read as this very number.
                Value::F32(value) => writeln!(text, "constexpr float {name} = {value:?}f;"),
            };
        }
        let _ = writeln!(text, "}}  // namespace {namespace}");
    }
    text
}
