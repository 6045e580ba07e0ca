//! What the mangled name of a kernel says of its parameters.
//!
//! The Itanium C++ ABI writes the types of the parameters into the symbol:
//! `PKf` is `const float*`, `Pf` is `float*`. A kernel whose name shows a
//! pointer to const for a parameter that is declared as written, or the
//! reverse, was declared by mistake.

use cpp_demangle::DemangleOptions;

use crate::audit::demangle::demangle;

/// What a symbol shows of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParamShape {
    /// A pointer through which the kernel may only read: `const T*`.
    ConstPointer,
    /// A pointer through which the kernel may write: `T*`.
    Pointer,
    /// A pointer to void or to a class that holds pointers, a reference, a
    /// value: nothing that says how memory is touched.
    Other,
}

/// The parameters of the kernel with the symbol `mangled`, in the order of its
/// signature; `None` when the symbol is not mangled, as that of an `extern "C"`
/// kernel, or not understood.
///
/// ```
/// use streamweir_verify::audit::{ParamShape, const_params};
///
/// // void add(float*, const float*, int)
/// assert_eq!(
///     const_params("_Z3addPfPKfi"),
///     Some(vec![ParamShape::Pointer, ParamShape::ConstPointer, ParamShape::Other])
/// );
/// assert_eq!(const_params("add"), None);
/// ```
pub fn const_params(mangled: &str) -> Option<Vec<ParamShape>> {
    let text = demangle(mangled, &DemangleOptions::new())?;
    let list = parameter_list(&text)?;
    if matches!(list.trim(), "" | "void") {
        return Some(Vec::new());
    }
    Some(top_level(list, ',').map(shape).collect())
}

/// What stands between the last parentheses of a signature that are inside no
/// others and no angle brackets.
fn parameter_list(text: &str) -> Option<&str> {
    let (mut round, mut angle) = (0_u32, 0_u32);
    let mut open = None;
    let mut found = None;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '<' if !operator_before(text, at) => angle += 1,
            // `->` of a trailing return type or an operator closes nothing.
            '>' if before != '-' && !operator_before(text, at) => angle = angle.saturating_sub(1),
            '(' if angle == 0 => {
                if round == 0 {
                    open = Some(at + 1);
                }
                round += 1;
            }
            ')' if angle == 0 => {
                round = round.checked_sub(1)?;
                if round == 0 {
                    found = Some(text.get(open?..at)?);
                }
            }
            _ => {}
        }
        before = letter;
    }
    // `(anonymous namespace)` is part of a name, and the name comes first.
    found.filter(|list| *list != "anonymous namespace")
}

fn operator_before(text: &str, at: usize) -> bool {
    text.get(..at).is_some_and(|front| {
        front
            .trim_end_matches(['<', '>', '=', '-'])
            .ends_with("operator")
    })
}

/// `list` cut at each `separator` that is inside no brackets.
fn top_level(list: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    list.split(move |letter| {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        letter == separator && depth == 0
    })
}

fn shape(param: &str) -> ParamShape {
    let mut text = param.trim();
    // A pointer that is itself const or restrict points to the same thing.
    while let Some(front) = [" const", "const", "__restrict__", "__restrict", "restrict"]
        .iter()
        .find_map(|word| {
            text.strip_suffix(word)
                .filter(|front| front.trim_end().ends_with('*'))
        })
    {
        text = front.trim_end();
    }
    let Some(pointee) = text.strip_suffix('*') else {
        return ParamShape::Other;
    };
    let pointee = pointee.trim_end();
    // A pointer to a pointer says nothing of the memory behind the second.
    if pointee.ends_with(['*', '&', ')']) {
        ParamShape::Other
    } else if pointee.ends_with(" const") || pointee.starts_with("const ") {
        ParamShape::ConstPointer
    } else {
        ParamShape::Pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ParamShape::{ConstPointer, Other, Pointer};

    #[test]
    fn the_shapes_of_mangled_kernels() {
        for (symbol, shapes) in [
            ("_Z3addPfPKfi", &[Pointer, ConstPointer, Other][..]),
            ("_Z4nonev", &[]),
            // `__restrict__` of a parameter itself is not in its symbol; a
            // pointer to a pointer; one back reference.
            ("_Z3rowPKfPfPS1_", &[ConstPointer, Pointer, Other]),
            // A template whose argument list holds parentheses and commas.
            (
                "_Z6kernelILi4E3FooIPKfPfEEvT0_S2_PKi",
                &[Other, ConstPointer, ConstPointer],
            ),
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
                &[Other, Other, Other],
            ),
            ("_ZN12_GLOBAL__N_16gatherEPKhPh", &[ConstPointer, Pointer]),
        ] {
            assert_eq!(const_params(symbol).as_deref(), Some(shapes), "{symbol}");
        }
    }

    #[test]
    fn what_is_not_mangled_says_nothing() {
        for symbol in ["", "add", "_Z", "_Z3ad", "nvjet_sm90_tst_64x8", "_ZN"] {
            assert_eq!(const_params(symbol), None, "{symbol:?}");
        }
        assert_eq!(const_params(&format!("_Z{}", "N".repeat(1 << 17))), None);
    }
}
