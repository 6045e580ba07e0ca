//! Kernels that are not run, by name.
//!
//! Memory and conditional nodes are no kernels and are never tried. Of kernels
//! those are refused that another kernel, process or device must answer: alone
//! they would wait for ever, or disturb who is not there.

/// Parts of names of kernels that talk to other devices or processes.
const COMMUNICATION: &[&str] = &[
    "nccl",
    "nvshmem",
    "deep_ep",
    "deepep",
    "allreduce",
    "all_reduce",
    "allgather",
    "all_gather",
    "reducescatter",
    "reduce_scatter",
    "alltoall",
    "all_to_all",
    "mscclpp",
    "sendrecv",
];

/// Parts of names of kernels that wait for memory to change.
const SPINNING: &[&str] = &[
    "spin",
    "barrier",
    "semaphore_wait",
    "wait_flag",
    "flag_wait",
    "wait_signal",
    "wait_value",
    "rendezvous",
];

/// Why a kernel of this name is not run; `None` when it is.
pub(super) fn by_name(function: &str) -> Option<String> {
    let name = function.to_ascii_lowercase();
    let part = |parts: &[&'static str]| parts.iter().copied().find(|part| name.contains(part));
    if let Some(part) = part(COMMUNICATION) {
        return Some(format!(
            "it communicates with others (\"{part}\" in its name)"
        ));
    }
    part(SPINNING).map(|part| format!("it waits for others (\"{part}\" in its name)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_need_an_answer_are_refused_and_say_why() {
        let refused = |name: &str| by_name(name).unwrap_or_default();
        assert!(refused("ncclDevKernel_AllReduce_Sum_f32_RING_LL").contains("\"nccl\""));
        assert!(refused("_Z15grid_barrier_alli").contains("waits"));
        for name in [
            "nvjet_tst_128x128_64x6",
            "splitKreduce_kernel",
            "_Z3addPfPKfi",
        ] {
            assert_eq!(by_name(name), None, "{name}");
        }
    }
}
