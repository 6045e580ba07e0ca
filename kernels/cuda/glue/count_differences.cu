// How many words differ. Signature and twin: src/dsv4/glue/differences.rs.

#include "common.cuh"

// A thread's verdict is a bit of its warp's vote, so that equal words, which all
// are as a rule, cost no atomic operation.
extern "C" __global__ void __launch_bounds__(differences::THREADS) count_differences(
    const u32* __restrict__ left,
    const u32* __restrict__ right,
    u32* __restrict__ found,
    u32 len) {
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const u32 vote = __ballot_sync(0xffffffffu, i < len && left[i] != right[i]);
    if (threadIdx.x % 32 == 0 && vote != 0) {
        atomicAdd(found, static_cast<u32>(__popc(vote)));
    }
}
