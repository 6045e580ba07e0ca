//! Mangled names, with a bound: a few hundred letters of a mangled name can
//! stand for more text than there is memory.

use std::fmt;

use cpp_demangle::{DemangleOptions, DemangleWrite, Symbol};

/// The longest mangled name that is looked at, and the longest text that one
/// may stand for.
const LONGEST: usize = 1 << 16;

/// The text that `mangled` stands for; `None` when it is not mangled, not
/// understood or too long.
pub(super) fn demangle(mangled: &str, options: &DemangleOptions) -> Option<String> {
    if !mangled.starts_with("_Z") || mangled.len() > LONGEST {
        return None;
    }
    let mut text = Bounded(String::new());
    let symbol = Symbol::new(mangled).ok()?;
    symbol.structured_demangle(&mut text, options).ok()?;
    Some(text.0)
}

/// The function's qualified name without template arguments: the names of
/// template kernels run to hundreds of letters.
pub(super) fn short_name(symbol: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let Some(full) = demangle(symbol, &options) else {
        return symbol.to_owned();
    };
    let mut name = String::new();
    let mut depth = 0_u32;
    for letter in full.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    match name.trim() {
        "" => symbol.to_owned(),
        name => name.to_owned(),
    }
}

struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_arguments_are_left_out() {
        assert_eq!(
            short_name(
                "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
            ),
            "at::native::vectorized_elementwise_kernel"
        );
        assert_eq!(short_name("nvjet_sm90"), "nvjet_sm90");
        assert_eq!(short_name("_Zbroken"), "_Zbroken");
    }

    #[test]
    fn a_name_that_stands_for_endless_text_is_refused() {
        // Each S<n>_ stands for twice what the one before it does.
        let mut name = String::from("_Z1f1AI1BS0_E");
        for at in 0..60 {
            let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
            let seq = |mut n: usize| {
                let mut text = String::new();
                loop {
                    text.insert(0, digits[n % 36] as char);
                    n /= 36;
                    if n == 0 {
                        break text;
                    }
                }
            };
            let last = seq(at + 1);
            name.push_str(&format!("S_IS{last}_S{last}_E"));
        }
        assert_eq!(demangle(&name, &DemangleOptions::new()), None);
    }
}
