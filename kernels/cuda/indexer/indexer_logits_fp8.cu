// logits[t, j] = scale(t, j) · Σ_h weights[t, h] · relu(q[t, h, ..] · key(t, j)),
// e4m3 queries and keys. Signature and twin: src/dsv4/indexer/logits.rs.

#include "logits.cuh"

extern "C" __global__ void __launch_bounds__(index_logits::WARPS * 32, 2) indexer_logits_fp8(
    const unsigned char* __restrict__ q,
    const float* __restrict__ weights,
    const unsigned char* __restrict__ keys,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    float* __restrict__ logits,
    IndexKeyFp8Pages layout,
    u32 tokens,
    u32 heads,
    u32 table_stride,
    u32 max_entries) {
    programmatic::wait();
    index_logits::run<index_logits::Fp8>(
        q, weights, keys, page_table, lens, logits, layout, tokens, heads, table_stride, max_entries);
}
