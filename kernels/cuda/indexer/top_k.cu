// The k best logits of each token, as slots. Signature and twin:
// src/dsv4/indexer/selection.rs.

#include "selection.cuh"

extern "C" __global__ void SELECTION_CLUSTER __launch_bounds__(selection::THREADS, 2) top_k(
    const float* __restrict__ logits,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    int* __restrict__ indices,
    LatentPages layout,
    u32 tokens,
    u32 max_entries,
    u32 table_stride,
    u32 k) {
    programmatic::let_next_start();
    programmatic::wait();
    selection::run(logits, page_table, lens, indices, layout, tokens, max_entries, table_stride, k);
}

// The same, as slots of a pool of fp8 latents.
extern "C" __global__ void SELECTION_CLUSTER __launch_bounds__(selection::THREADS, 2) top_k_fp8(
    const float* __restrict__ logits,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    int* __restrict__ indices,
    LatentFp8Pages layout,
    u32 tokens,
    u32 max_entries,
    u32 table_stride,
    u32 k) {
    programmatic::let_next_start();
    programmatic::wait();
    selection::run(logits, page_table, lens, indices, layout, tokens, max_entries, table_stride, k);
}
