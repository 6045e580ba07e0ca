//! Placement of a whole recording at once.
//!
//! Buffers are given with the times at which they are in use. The planner gives each an
//! offset such that the whole is as low as it can be made, and says how low any layout can
//! be at best.
//!
//! # What is guaranteed
//! - Two buffers share bytes only if one is entirely before the other
//!   ([`Lives::before`]), by the order that the recording has: none is added.
//! - Under [`Sharing::Isolated`] two pools share no bytes at all.
//! - Every buffer begins at a multiple of its alignment.
//! - With a budget in steps the plan is a function of the problem alone: not of
//!   time, threads or addresses. A deadline can end the search early, never make
//!   the plan invalid.
//!
//! # How
//! Some orders of placement, each with first fit and best fit (`order`, `fit`); then, as far
//! as the budget goes, a local search that ejects what is in the way (`eject`), and where
//! there is one axis and not too many buffers an exact search (`exact`) for a layout as low as
//! the floor, or as near above it as can be found (`narrow`). The search stops at the floor,
//! or when the layout fits the capacity that was asked for. Pairs of buffers that may not
//! share bytes are listed while there are a few million, and found anew each time above that
//! (`neighbours`), so the memory that a plan takes grows with the buffers and not their pairs.
//!
//! # Who needs what
//! The crate knows the plain data of traces and nothing else. The pools of
//! `streamweir-alloc` choose places while a program runs, and need no planner; the planner
//! works on lives and sizes, and needs no pool. A planned capture has both: it turns what its
//! pools recorded into lives, and says by [`Sharing`] what the policy of its pools allows. So
//! neither crate depends on the other. (The tests here play the same logs through pools, to
//! hold what was recorded online against the floor; that is a dependency of tests alone.)
//!
//! ```
//! use streamweir_place::{Budget, Item, Lives, Problem, Sharing};
//!
//! // Three buffers of one stream, the first and the last never alive together.
//! let lives = Lives::on_one_axis(&[(0, 2), (1, 4), (3, 5)]);
//! let items = [64, 32, 48].map(|bytes| Item { bytes, align: 16, pool: 0 });
//! let problem = Problem::new(items.to_vec(), lives)?;
//! let plan = problem.plan(Sharing::Ordered, Budget::steps(10_000), None);
//! assert_eq!(plan.height, 96);
//! assert_eq!(plan.height, problem.floor().bytes);
//! # Ok::<(), streamweir_place::PlanError>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
mod eject;
mod exact;
mod fit;
mod floor;
mod lives;
mod narrow;
mod neighbours;
mod order;
mod pool;
mod problem;
mod recorded;
mod rng;
mod section;
mod waste;

pub use self::budget::Budget;
pub use self::floor::{EXACT_BUFFERS, Floor, FloorKind, floor};
pub use self::lives::{Life, Lives};
pub use self::problem::{Item, Plan, PlanError, Problem, Progress, Sharing};
pub use self::recorded::{LogPlanError, Recorded};
pub use self::waste::{Costly, Waste};
