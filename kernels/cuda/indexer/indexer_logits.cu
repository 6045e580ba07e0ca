// logits[t, j] = Σ_h weights[t, h] · relu(q[t, h, ..] · key(t, j)), bf16 keys.
// Signature and twin: src/dsv4/indexer/logits.rs.

#include "logits.cuh"

extern "C" __global__ void __launch_bounds__(index_logits::WARPS * 32, 2) indexer_logits(
    const bf16* __restrict__ q,
    const float* __restrict__ weights,
    const bf16* __restrict__ keys,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    float* __restrict__ logits,
    IndexKeyPages layout,
    u32 tokens,
    u32 heads,
    u32 table_stride,
    u32 max_entries) {
    programmatic::wait();
    index_logits::run<index_logits::Bf16>(
        q, weights, keys, page_table, lens, logits, layout, tokens, heads, table_stride, max_entries);
}
