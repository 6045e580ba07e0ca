// Ids of page tables that a pool does not have. A block for each token.
// Signature and twin: src/dsv4/attention/check.rs.

#include "common.cuh"

extern "C" __global__ void __launch_bounds__(page_check::THREADS) check_page_table(
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    u32* __restrict__ found,
    u32 tokens,
    u32 table_stride,
    u32 tokens_per_page,
    u32 pages) {
    programmatic::let_next_start();
    programmatic::wait();
    const u32 token = blockIdx.x;
    if (token >= tokens) {
        return;
    }
    const u64 reach = min(static_cast<u64>(table_stride) * tokens_per_page, 0xffffffffull);
    const u32 len = sequence_length(lens, token, static_cast<u32>(reach));
    const u32 used = len / tokens_per_page + (len % tokens_per_page != 0);
    const u32 first = token * table_stride;
    for (u32 column = threadIdx.x; column < used; column += page_check::THREADS) {
        const int id = page_table[first + column];
        if (id < 0 || static_cast<u32>(id) >= pages) {
            atomicAdd(&found[0], 1u);
            atomicMin(&found[1], first + column);
        }
    }
}
