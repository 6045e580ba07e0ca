//! The rules of stream capture, as cases that every backend has to pass.
//!
//! A test binary of a backend runs [`suite`] on its device: the simulated one
//! in the tests of this crate, a card in the GPU tests. A case checks one rule
//! through [`Driver`](crate::driver::Driver) alone, gives back whatever it made, and
//! then captures and replays once more, because a rule that was broken must
//! not harm what comes after.

mod broken;
mod early;
mod enabled;
mod forbidden;
mod forks;
mod inside;
mod launches;
mod lifetime;
mod ranges;
mod rig;
mod shape;

use std::fmt;
use std::sync::Arc;

use rig::Rig;

use crate::driver::{DriverError, DynDriver, ModuleImage, ParamSlot};
use crate::sim::{SimBlock, SimKernel};

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The rule in a few words, with `_` between them.
    pub name: &'static str,
    body: fn(&Rig<'_>) -> Result<(), Failure>,
}

impl Case {
    /// Checks the rule on a device on which nothing else is going on.
    ///
    /// # Errors
    /// What was expected, and what came instead.
    pub fn run(&self, driver: &DynDriver, kernel: &KernelFixture) -> Result<(), Failure> {
        let rig = Rig::new(driver, kernel);
        let outcome = (self.body)(&rig);
        outcome.and(rig.close())?;
        let after = Rig::new(driver, kernel);
        let outcome = shape::fill_runs_at_replay(&after);
        outcome
            .and(after.close())
            .map_err(|failure| Failure::new("a device that still works", failure))
    }
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the rule says.
    pub expected: String,
    /// What the device did.
    pub got: String,
}

impl Failure {
    fn new(expected: impl ToString, got: impl ToString) -> Self {
        Self {
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}; got {}", self.expected, self.got)
    }
}

impl std::error::Error for Failure {}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Self::new("success", error)
    }
}

/// The one kernel that the cases need: `symbol(unsigned *data, unsigned len)`
/// adds 1 to each of `len` elements, in blocks of 32 threads, and waits for what it
/// follows before that (`griddepcontrol.wait`).
#[derive(Clone, Debug)]
pub struct KernelFixture {
    /// The module that holds the kernel.
    pub image: ModuleImage,
    /// The kernel's symbol.
    pub symbol: &'static str,
}

impl KernelFixture {
    /// The fixture of the simulated device.
    pub fn sim() -> Self {
        let run = |block: &mut SimBlock<'_>| {
            let data: u64 = block.param(0)?;
            let len: u32 = block.param(8)?;
            let start = block.index()[0] * 32;
            let count = len.saturating_sub(start).min(32) as usize;
            let address = data + 4 * u64::from(start);
            let values: Vec<u32> = block
                .read::<u32>(address, count)?
                .iter()
                .map(|value| value.wrapping_add(1))
                .collect();
            block.write(address, &values)
        };
        let symbol = "add_one";
        let params = [(0, 8), (8, 4)].map(|(offset, size)| ParamSlot { offset, size });
        Self {
            image: ModuleImage::Sim(vec![SimKernel {
                symbol,
                params: params.to_vec(),
                run: Arc::new(run),
            }]),
            symbol,
        }
    }
}

macro_rules! cases {
    ($($module:ident: $($name:ident),+;)+) => {
        vec![$($(Case { name: stringify!($name), body: $module::$name }),+),+]
    };
}

/// All cases.
pub fn suite() -> Vec<Case> {
    cases! {
        shape:
            fill_runs_at_replay, fill_node_tells_operands, copy_node_tells_operands,
            kernel_node_tells_parameters, parameters_are_copied_at_launch,
            one_stream_makes_a_chain, frontier_is_last_node, nodes_come_in_order_of_creation,
            empty_capture_makes_empty_graph, nothing_runs_under_capture,
            launch_of_wrong_shape_is_refused;
        enabled:
            disabled_node_does_nothing, disabled_node_orders, only_work_is_disabled;
        early:
            edge_from_a_kernel_is_programmatic, edge_from_a_fill_is_full,
            edges_from_joined_kernels_are_programmatic, edge_from_a_joined_fill_is_full,
            first_node_may_start_early, outside_a_capture_results_are_in_order;
        forks:
            fork_and_join, fork_before_any_node, both_sides_meet_in_one_node,
            redundant_wait_adds_edge, wait_on_own_event_adds_nothing, event_keeps_its_record,
            event_recorded_anew_moves_on, fork_without_work_joined, fork_without_work_not_joined,
            unjoined_work, unjoined_tail_after_join, join_through_third_stream,
            forked_stream_is_free_after_end;
        forbidden:
            synchronize_of_capturing_stream, query_of_capturing_stream,
            synchronize_of_captured_event, query_of_captured_event, alloc_under_capture,
            alloc_under_relaxed_capture, alloc_in_relaxed_thread, alloc_in_other_thread,
            alloc_in_other_thread_of_global_capture, copy_under_capture, replay_beside_capture,
            instantiate_under_capture,
            exec_destroy_under_capture, replay_into_capture,
            synchronize_of_other_stream, query_of_event_from_outside, mode_exchange_gives_former_mode,
            streams_and_events_may_be_made, legacy_stream_is_not_captured,
            legacy_stream_does_not_join;
        broken:
            begin_twice, end_without_begin, end_on_forked_stream, end_in_other_thread,
            relaxed_end_in_other_thread, wait_for_event_from_outside,
            wait_for_unrecorded_event, merge_of_two_captures, event_of_ended_capture,
            invalidated_capture_says_so, captures_have_their_own_ids,
            external_flags_need_a_capture;
        inside:
            child_graph_is_a_copy, only_a_child_node_has_a_child, node_alone_does_what_it_did,
            only_kernels_and_fills_are_alone, fill_alone_fills,
            address_tells_its_memory;
        lifetime:
            graph_outlived_by_exec, kept_object_goes_with_last_owner,
            kept_object_goes_with_graph, kept_object_of_broken_capture_goes,
            pinned_memory_is_read_at_replay, replays_of_one_exec_follow_one_another,
            external_record_and_wait_are_nodes, external_record_happens_at_replay,
            range_of_memory_is_known;
        launches:
            cooperative_launch_says_so, cluster_launch_says_so,
            cluster_that_does_not_divide_the_grid_is_refused, priority_of_a_launch_is_its_own,
            host_function_is_called_at_each_replay, host_function_is_called_outside_a_capture,
            update_changes_later_launches, update_with_other_nodes_is_refused;
        ranges:
            pieces_of_a_range_are_used_as_one, a_range_grows_under_a_capture,
            a_piece_may_be_mapped_anew;
    }
}

/// Shared by the cases that count drops.
type Kept = Arc<()>;
