// The k best of a row of f32 logits, exactly, as slots.
//
// A row is the work of a cluster of thread blocks, each with a contiguous slice
// of it. Up to three passes count the keys' digits, upper digits first, each
// among those keys whose digits above are the threshold's; every block reads
// the counts of all blocks through distributed shared memory and finds the next
// digit by itself. Then the threshold is known, and how many of the entries
// that equal it are taken: the lowest ones. A last pass marks what is above the
// threshold and what equals it, a bit for each entry, and the marks are
// counted and written out in the order of the entries. Where an entry goes
// depends on counts alone, never on the order in which threads arrive.
//
// What a row does not need of its cluster ends at once: a row of at most ROUND
// entries is left to one block. What the blocks share lives in their shared
// memory and ends with the launch, so no state is carried from one launch to
// the next; and since the device starts the blocks of a cluster together, they
// may wait for each other beside any other kernel.

#pragma once

#include "cluster.cuh"
#include "pages.cuh"
#include "slice.cuh"

namespace selection {
// The threshold of a row, down to bit `shift` of the keys; how many of the
// entries that equal it are taken; and what the blocks before this one have
// above it and equal to it.
struct Threshold {
    u32 prefix;
    u32 shift;
    u32 needed;
    u32 above;
    u32 equal;
};

// Finds, from the last of `2 pairs` counts down, the one in which the sum over
// all blocks reaches `needed`, which it does. What is above it is added to
// `found`. For one warp.
__device__ __forceinline__ u32 descend(
    const u32* counts, u32 pairs, u32 parts, u32 rank, u32 needed, Tally& found) {
    // Each lane has two counts, the first lane the last ones.
    const u32 lane = threadIdx.x % 32;
    const u32 pair = lane < pairs ? pairs - 1 - lane : 0;
    uint2 words[CLUSTER];
#pragma unroll
    for (u32 block = 0; block < CLUSTER; ++block) {
        words[block] = read_block(counts + 2 * pair, min(block, parts - 1));
    }
    uint2 all = {0, 0};
    uint2 before = {0, 0};
#pragma unroll
    for (u32 block = 0; block < CLUSTER; ++block) {
        const bool in = block < parts && lane < pairs;
        all.x += in ? words[block].x : 0;
        all.y += in ? words[block].y : 0;
        before.x += in && block < rank ? words[block].x : 0;
        before.y += in && block < rank ? words[block].y : 0;
    }
    const u32 upto = found.above + sum_upto(all.x + all.y);
    const u32 hit = __ffs(static_cast<int>(__ballot_sync(ALL, upto >= needed))) - 1;
    const u32 above = upto - all.x - all.y;
    const bool upper = above + all.y >= needed;
    const u32 passed = lane < hit ? before.x + before.y : lane == hit && !upper ? before.y : 0;
    found.above_before += __reduce_add_sync(ALL, passed);
    found.above = __shfl_sync(ALL, upper ? above : above + all.y, hit);
    found.equal = __shfl_sync(ALL, upper ? all.y : all.x, hit);
    found.equal_before = __shfl_sync(ALL, upper ? before.y : before.x, hit);
    return __shfl_sync(ALL, 2 * pair + upper, hit);
}

// The threshold of the `k` best keys of the row, of which this block has
// `slice`; the slice's only round, if it has one, is `kept`.
__device__ __forceinline__ Threshold threshold(
    Shared& shared, const Slice& slice, const Part& kept, u32 parts, u32 rank, u32 k) {
    Threshold threshold = {0, 32, k, 0, 0};
#pragma unroll 1
    for (u32 pass = 0; pass < PASSES; ++pass) {
        const u32 bits = pass == 2 ? 10 : 11;
        const u32 bins = 1u << bits;
        const u32 shift = threshold.shift - bits;
        u32* const histogram = shared.histogram[pass];
        const u32 prefix = pass == 0 ? 0 : threshold.prefix << threshold.shift;
        slice.each(kept, 0, slice.rounds(), [&](u32, const Part& part) {
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                // With the threshold's digits above, what is left is the digit;
                // with others it is more than any.
                const u32 digit = (part.key(i) ^ prefix) >> shift;
                atomicAdd(&histogram[i < part.count ? min(digit, bins) : bins], 1u);
            }
        });
        __syncthreads();
        const u32 at = threadIdx.x * 4;
        if (at < bins) {
            const uint4 four = *reinterpret_cast<const uint4*>(histogram + at);
            u32 sum = four.x + four.y + four.z + four.w;
#pragma unroll
            for (u32 distance = BIN_GROUP / 8; distance > 0; distance /= 2) {
                sum += __shfl_xor_sync(ALL, sum, distance);
            }
            if (at % BIN_GROUP == 0) {
                shared.groups[pass][at / BIN_GROUP] = sum;
            }
        }
        barrier(parts == 1);
        if (threadIdx.x < 32) {
            Tally found = {};
            const u32 group = descend(shared.groups[pass], bins / BIN_GROUP / 2, parts, rank, threshold.needed, found);
            const u32* counts = histogram + group * BIN_GROUP;
            found.digit = group * BIN_GROUP + descend(counts, BIN_GROUP / 2, parts, rank, threshold.needed, found);
            if (threadIdx.x == 0) {
                shared.found = found;
            }
        }
        __syncthreads();
        const Tally found = shared.found;
        threshold.prefix = threshold.prefix << bits | found.digit;
        threshold.shift = shift;
        threshold.needed -= found.above;
        threshold.above += found.above_before;
        threshold.equal = found.equal_before;
        // When all of them are taken, the digits below do not matter.
        if (threshold.needed == found.equal) {
            break;
        }
    }
    return threshold;
}

// Writes the slots of the entries of this block's slice that are above the
// threshold, and of those of its equals that are taken. What follows the first `k` is
// dropped: there is nothing, unless somebody writes the logits meanwhile, and even then
// the row of slots and the list in shared memory hold no more.
template <typename Layout>
__device__ __forceinline__ void collect(
    Shared& shared,
    const Slice& slice,
    const Part& kept,
    Threshold threshold,
    const int* table,
    const Layout& layout,
    u32 k,
    int* out) {
    for (u32 start = 0; start < slice.rounds(); start += MARKED) {
        const u32 stop = min(start + MARKED, slice.rounds());
        const auto mark = [&](u32 round, const Part& part) {
            u32 better = 0;
            u32 same = 0;
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                const u32 key = part.key(i) >> threshold.shift;
                better |= (key > threshold.prefix) << i;
                same |= (key == threshold.prefix) << i;
            }
            const u32 valid = (1u << part.count) - 1;
            const u32 at = (round - start) * THREADS + threadIdx.x;
            shared.better[at] = static_cast<unsigned char>(better & valid);
            shared.same[at] = static_cast<unsigned char>(same & valid);
        };
        slice.each(kept, start, stop, mark);
        __syncthreads();

        // Neighbouring words of marks for each thread. The counts of both kinds
        // are one word: of the better ones there are fewer than k.
        constexpr u32 WORDS = MARKED / 4;
        const u32 words = (stop - start) * THREADS / 4;
        const u32 each = (words + THREADS - 1) / THREADS;
        const u32 first = threadIdx.x * each;
        u32 better[WORDS];
        u32 same[WORDS];
        u32 mine = 0;
#pragma unroll
        for (u32 i = 0; i < WORDS; ++i) {
            const bool here = i < each && first + i < words;
            better[i] = here ? reinterpret_cast<const u32*>(shared.better)[first + i] : 0;
            same[i] = here ? reinterpret_cast<const u32*>(shared.same)[first + i] : 0;
            mine += __popc(better[i]) + (__popc(same[i]) << 16);
        }
        u32 total;
        const u32 before = sum_before(shared, start / MARKED % 2, mine, total);
        // Where the next entry goes after so many of both kinds.
        const auto place = [&](u32 counts) {
            return threshold.above + (counts & 0xffff) + min(threshold.equal + (counts >> 16), threshold.needed);
        };
        const u32 base = place(0);
        const u32 room = k - min(base, k);
        u32 at = place(before) - base;
        u32 equal = threshold.equal + (before >> 16);
#pragma unroll
        for (u32 i = 0; i < WORDS; ++i) {
            u32 marks = better[i] | same[i];
            while (marks != 0) {
                const u32 lowest = marks & (0u - marks);
                marks ^= lowest;
                const bool is_same = same[i] & lowest;
                if ((!is_same || equal < threshold.needed) && at < room) {
                    shared.selected[at] = slice.begin + start * ROUND + (first + i) * 32 + __ffs(static_cast<int>(lowest)) - 1;
                    ++at;
                }
                equal += is_same;
            }
        }
        __syncthreads();
        const u32 selected = min(place(total) - base, room);
        for (u32 i = threadIdx.x; i < selected; i += THREADS) {
            out[base + i] = layout.slot(table, shared.selected[i]);
        }
        threshold.above += total & 0xffff;
        threshold.equal += total >> 16;
    }
}

template <typename Layout>
__device__ __forceinline__ void run(
    const float* __restrict__ logits,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    int* __restrict__ indices,
    const Layout& layout,
    u32 tokens,
    u32 max_entries,
    u32 table_stride,
    u32 k) {
    __shared__ __align__(16) Shared shared;
    const u32 token = blockIdx.x / BLOCKS_PER_ROW;
    const u32 rank = blockIdx.x % BLOCKS_PER_ROW;
    if (token >= tokens) {
        return;
    }
    const float* row = logits + static_cast<u64>(token) * max_entries;
    // While the length is on its way: what the block works on if the row fits
    // the registers of the cluster. Of what is past the length nothing is used.
    Part kept = Slice(row, min(rank * ROUND, max_entries), min((rank + 1) * ROUND, max_entries)).load(0);
    for (u32 i = threadIdx.x; i < sizeof(shared.histogram) / 16; i += THREADS) {
        reinterpret_cast<uint4*>(shared.histogram)[i] = make_uint4(0, 0, 0, 0);
    }

    const u32 len = sequence_length(lens, token, max_entries);
    const int* table = page_table + static_cast<u64>(token) * table_stride;
    int* out = indices + static_cast<u64>(token) * k;
    const u32 parts = max(min((len + ROUND - 1) / ROUND, CLUSTER), 1u);
    if (rank >= parts) {
        return;
    }
    if (len <= k) {
        for (u32 i = threadIdx.x; i < k; i += THREADS) {
            out[i] = i < len ? layout.slot(table, i) : -1;
        }
        return;
    }

    const u32 even = (len + parts * EACH - 1) / (parts * EACH) * EACH;
    const u32 share = len <= CLUSTER * ROUND ? ROUND : even;
    const u32 begin = min(rank * share, len);
    const Slice slice(row, begin, min(begin + share, len));
    if (share == ROUND) {
        const u32 at = begin + threadIdx.x * EACH;
        kept.count = at < slice.end ? min(slice.end - at, EACH) : 0;
    } else {
        kept = slice.load(0);
    }
    __syncthreads();

    const Threshold found = threshold(shared, slice, kept, parts, rank, k);
    // Others may read this block's counts until all have come here.
    leave_begin(parts == 1);
    collect(shared, slice, kept, found, table, layout, k, out);
    leave_end(parts == 1);
}
}  // namespace selection
