// Attention over a window and all entries of a sequence. A block takes 64 heads
// of a token and one split of its entries. Signature and twin:
// src/dsv4/attention/paged.rs.

#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(attention::THREADS, 1) paged_attention(
    const bf16* __restrict__ q,
    const char* __restrict__ window,
    const int* __restrict__ window_slots,
    const char* __restrict__ latents,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    uint4* __restrict__ partial,
    float4* __restrict__ stats,
    u32* __restrict__ faults,
    LatentFp8Pages window_layout,
    LatentFp8Pages layout,
    u32 tokens,
    u32 heads,
    u32 window_entries,
    u32 max_entries,
    u32 table_stride,
    float scale) {
    programmatic::wait();
    extern __shared__ __align__(sparse::EIGHT_ROWS) char attention_memory[];
    const u32 first_head = blockIdx.y * sparse::HEADS;
    const u32 token = blockIdx.z;
    if (token >= tokens || first_head >= heads) {
        return;
    }
    const u64 queries = static_cast<u64>(token) * heads + first_head;
    const u64 part = static_cast<u64>(token) * gridDim.x + blockIdx.x;
    attention::attend(
        *reinterpret_cast<attention::Shared*>(attention_memory),
        q + queries * sparse::DIM,
        sparse::Window{window, window_slots + static_cast<u64>(token) * window_entries, window_entries, window_layout},
        sparse::Paged{
            latents,
            page_table + static_cast<u64>(token) * table_stride,
            sequence_length(lens, token, max_entries),
            layout},
        partial + (part * gridDim.y + blockIdx.y) * sparse::SUMS,
        stats + part * heads + first_head,
        first_head == 0 ? faults : nullptr,
        min(heads - first_head, sparse::HEADS),
        blockIdx.x,
        gridDim.x,
        scale);
}
