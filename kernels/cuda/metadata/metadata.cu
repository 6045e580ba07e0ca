// What a step's kernels need to know of its sequences, from their lengths and
// page tables. Signatures and twins: src/dsv4/metadata/.

#include "row.cuh"

// A thread for each token.
extern "C" __global__ void __launch_bounds__(metadata::THREADS) decode_metadata(
    const int* __restrict__ seq_lens,
    const int* __restrict__ page_table,
    int* __restrict__ positions,
    int* __restrict__ window_lens,
    int* __restrict__ c4_lens,
    int* __restrict__ c128_lens,
    int* __restrict__ out_loc,
    int* __restrict__ c4_out_loc,
    int* __restrict__ c128_out_loc,
    u32* __restrict__ faults,
    u32 tokens,
    u32 table_stride,
    u32 pages) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace model;
    const u32 token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens) {
        return;
    }
    int len = max(seq_lens[token], 0);
    bool fault = false;
    const u32 reach = min(table_stride, 0x7fffffffu / MODEL_PAGE) * MODEL_PAGE;
    if (static_cast<u32>(len) > reach) {
        len = static_cast<int>(reach);
        fault = true;
    }
    const int position = max(len - 1, 0);
    int place = 0;
    if (len > 0) {
        const int page = page_table[static_cast<u64>(token) * table_stride + position / MODEL_PAGE];
        if (page < 0 || static_cast<u32>(page) >= pages) {
            fault = true;
        } else if (page > 0) {
            place = page * MODEL_PAGE + position % MODEL_PAGE;
        }
    }
    positions[token] = position;
    window_lens[token] = min(len, static_cast<int>(WINDOW));
    constexpr int c4 = C4;
    constexpr int c128 = C128;
    c4_lens[token] = len / c4;
    c128_lens[token] = len / c128;
    out_loc[token] = place;
    c4_out_loc[token] = len % c4 == 0 ? place / c4 : 0;
    c128_out_loc[token] = len % c128 == 0 ? place / c128 : 0;
    if (fault) {
        count_fault(faults);
    }
}

// A block for each token, a thread for each token of its window.
extern "C" __global__ void __launch_bounds__(model::WINDOW) window_slots(
    const int* __restrict__ seq_lens,
    const int* __restrict__ window_table,
    int* __restrict__ out_loc,
    int* __restrict__ slots,
    u32* __restrict__ faults,
    LatentFp8Pages layout,
    u32 tokens,
    u32 table_stride) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace model;
    const u32 token = blockIdx.x;
    if (token >= tokens) {
        return;
    }
    const u32 len = static_cast<u32>(max(seq_lens[token], 0));
    const u32 entries = min(len, WINDOW);
    int slot = -1;
    if (threadIdx.x < entries) {
        const u32 position = len - entries + threadIdx.x;
        const u32 column = position / layout.tokens_per_page % table_stride;
        const int page = window_table[static_cast<u64>(token) * table_stride + column];
        const bool held = page >= 0 && static_cast<u32>(page) < layout.pages;
        slot = static_cast<int>(
            (held ? static_cast<u32>(page) : 0u) * layout.tokens_per_page + position % layout.tokens_per_page);
        if (threadIdx.x == entries - 1) {
            // Page 0 belongs to nobody: nothing is stored there.
            out_loc[token] = held && page > 0 ? slot : 0;
            if (!held) {
                count_fault(faults);
            }
        }
    }
    slots[static_cast<u64>(token) * WINDOW + threadIdx.x] = slot;
    if (entries == 0 && threadIdx.x == 0) {
        out_loc[token] = 0;
    }
}
