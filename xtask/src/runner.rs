//! Choosing steps, running them and saying what became of each.
//!
//! A run stops at the first step that fails and names the steps that remain. A
//! step that could not run is never silent: it is listed with its reason, and
//! it is a failure when it was asked for by name.

use std::time::Instant;

use crate::command::Outcome;
use crate::workspace::Workspace;

/// One step of `cargo xtask test`.
pub(crate) struct Step {
    /// What `--only` and `--require` call it.
    pub(crate) name: &'static str,
    /// What it shows, in a few words.
    pub(crate) about: &'static str,
    /// What the machine must have beside stable Rust and a C linker.
    pub(crate) need: Need,
    /// Does it.
    pub(crate) run: fn(&Workspace) -> Outcome,
}

/// What a step needs of the machine.
pub(crate) enum Need {
    /// Nothing more.
    Nothing,
    /// A tool: what it is, and the check that says why it is missing.
    Tool(&'static str, fn(&Workspace) -> Result<(), String>),
}

impl Step {
    fn is_optional(&self) -> bool {
        matches!(self.need, Need::Tool(..))
    }
}

/// The steps of one run.
pub(crate) struct Selection {
    steps: Vec<(&'static Step, Required)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Required {
    Yes,
    WhenFound,
}

/// What became of the steps.
#[derive(Default)]
struct Tally {
    passed: usize,
    not_run: Vec<(&'static str, String)>,
}

impl Selection {
    /// All `steps`, or those named in `only`; those of `require` and `only`
    /// must run.
    ///
    /// # Errors
    /// A name that no step has, or `require` naming a step that `only` leaves
    /// out.
    pub(crate) fn new(
        steps: &'static [Step],
        require: &[String],
        only: &[String],
    ) -> Result<Self, String> {
        for name in require.iter().chain(only) {
            if !steps.iter().any(|step| step.name == name) {
                let known: Vec<_> = steps.iter().map(|step| step.name).collect();
                return Err(format!(
                    "no step is called {name:?}; the steps are {}",
                    known.join(", ")
                ));
            }
        }
        let named = |names: &[String], step: &Step| names.iter().any(|name| name == step.name);
        let steps: Vec<_> = steps
            .iter()
            .filter(|step| only.is_empty() || named(only, step))
            .map(|step| {
                let asked = !step.is_optional() || named(require, step) || named(only, step);
                (
                    step,
                    if asked {
                        Required::Yes
                    } else {
                        Required::WhenFound
                    },
                )
            })
            .collect();
        if let Some(name) = require
            .iter()
            .find(|name| !steps.iter().any(|(step, _)| step.name == **name))
        {
            return Err(format!("--require names {name:?}, which --only leaves out"));
        }
        Ok(Self { steps })
    }

    /// Prints the steps and their needs.
    pub(crate) fn print(&self) {
        for (step, required) in &self.steps {
            let need = match (&step.need, required) {
                (Need::Nothing, _) => String::new(),
                (Need::Tool(tool, _), Required::Yes) => format!(" [required; needs {tool}]"),
                (Need::Tool(tool, _), Required::WhenFound) => format!(" [needs {tool}]"),
            };
            println!("{:<18} {}{need}", step.name, step.about);
        }
    }

    /// Runs the steps in order and prints what became of each.
    ///
    /// # Errors
    /// The first step that failed and why, as printed.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<(), String> {
        let mut tally = Tally::default();
        for (at, (step, required)) in self.steps.iter().enumerate() {
            println!("\n== {}: {}", step.name, step.about);
            let start = Instant::now();
            let result = match &step.need {
                Need::Tool(_, missing) => match (missing(workspace), required) {
                    (Err(why), Required::WhenFound) => {
                        println!("-- {}: not run: {why}", step.name);
                        tally.not_run.push((step.name, why));
                        continue;
                    }
                    (Err(why), Required::Yes) => Err(format!("required, and cannot run: {why}")),
                    (Ok(()), _) => (step.run)(workspace).map_err(|failure| failure.to_string()),
                },
                Need::Nothing => (step.run)(workspace).map_err(|failure| failure.to_string()),
            };
            let seconds = start.elapsed().as_secs_f64();
            if let Err(why) = result {
                println!("-- {}: FAILED after {seconds:.1} s: {why}", step.name);
                let left: Vec<_> = self.steps[at + 1..]
                    .iter()
                    .map(|(step, _)| step.name)
                    .collect();
                if !left.is_empty() {
                    println!("not reached: {}", left.join(", "));
                }
                println!("{}", tally.closing_line(1));
                return Err(format!("step {} failed: {why}", step.name));
            }
            println!("-- {}: passed in {seconds:.1} s", step.name);
            tally.passed += 1;
        }
        println!();
        for (name, why) in &tally.not_run {
            println!("not run: {name}: {why}");
        }
        println!("{}", tally.closing_line(0));
        Ok(())
    }
}

impl Tally {
    fn closing_line(&self, failed: usize) -> String {
        let s = if self.passed == 1 { "" } else { "s" };
        format!(
            "xtask: {} step{s} passed, {failed} failed, {} not run",
            self.passed,
            self.not_run.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Failure;

    static STEPS: &[Step] = &[
        Step {
            name: "plain",
            about: "always there",
            need: Need::Nothing,
            run: |_| Ok(()),
        },
        Step {
            name: "absent",
            about: "its tool is missing",
            need: Need::Tool("a tool", |_| Err("no tool here".into())),
            run: |_| Ok(()),
        },
        Step {
            name: "broken",
            about: "its tool is there, and it fails",
            need: Need::Tool("another", |_| Ok(())),
            run: |_| Err(Failure::new("it broke")),
        },
    ];

    fn select(require: &[&str], only: &[&str]) -> Result<Selection, String> {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        Selection::new(STEPS, &owned(require), &owned(only))
    }

    fn run(require: &[&str], only: &[&str]) -> Result<(), String> {
        let workspace = Workspace::find().expect("the tests run inside the workspace");
        select(require, only).expect("known names").run(&workspace)
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_that_exist() {
        let text = select(&["nvrtx"], &[]).err().expect("no such step");
        assert_eq!(
            text,
            r#"no step is called "nvrtx"; the steps are plain, absent, broken"#
        );
    }

    #[test]
    fn a_required_step_cannot_be_left_out() {
        let text = select(&["absent"], &["plain"])
            .err()
            .expect("contradiction");
        assert_eq!(text, r#"--require names "absent", which --only leaves out"#);
    }

    #[test]
    fn a_missing_tool_fails_a_step_only_when_it_is_asked_for() {
        let optional = select(&[], &[]).expect("known names").steps[1].1;
        assert_eq!(optional, Required::WhenFound);
        let required = run(&["absent"], &[]).expect_err("required");
        assert!(
            required.contains("step absent failed: required, and cannot run: no tool here"),
            "{required}"
        );
        let only = run(&[], &["absent"]).expect_err("asked for by name");
        assert!(only.contains("no tool here"), "{only}");
    }

    #[test]
    fn a_failing_step_fails_the_run() {
        // `absent` is passed over, `broken` then fails.
        let text = run(&[], &[]).expect_err("the last step fails");
        assert_eq!(text, "step broken failed: it broke");
        assert_eq!(run(&[], &["plain"]), Ok(()));
    }

    #[test]
    fn the_closing_line_counts_every_step() {
        let tally = Tally {
            passed: 14,
            not_run: vec![("absent", "no tool here".into())],
        };
        assert_eq!(
            tally.closing_line(0),
            "xtask: 14 steps passed, 0 failed, 1 not run"
        );
    }
}
