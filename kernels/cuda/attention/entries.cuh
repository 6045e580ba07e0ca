// The entries that a block of an attention looks at: where they are, in the pool of the
// window by a list of slots, and in the second pool by slots or by a page table.

#pragma once

#include "pages.cuh"

namespace sparse {

// Entries whose places are looked up ahead, one for each thread.
constexpr u32 AHEAD = THREADS;

// Where an entry is. No values: it takes no part.
struct Place {
    const char* values;
    const char* scales;
};

// The places of 256 entries and of the next 256.
struct Places {
    Place of[2][AHEAD];
    // A bit for each of the entries that takes part.
    u32 present[2][AHEAD / 32];
};

// Entries of the first pool, and what all entries have in common.
struct Window {
    const char* pool;
    const int* slots;
    u32 count;
    LatentFp8Pages layout;
};

// The place of a slot out of a list. Negative: no entry. One that the pool does
// not have takes no part either, and is counted.
__device__ __forceinline__ Place listed(const char* pool, const LatentFp8Pages& layout, int slot, u32& bad) {
    Place place = {nullptr, nullptr};
    if (layout.holds(slot)) {
        place.values = layout.values(pool, slot);
        place.scales = layout.scales<char>(pool, slot);
    } else {
        bad += slot >= 0;
    }
    return place;
}

// Entries of the second pool by their slots.
struct Listed {
    const char* pool;
    const int* slots;
    u32 count;
    LatentFp8Pages layout;

    __device__ __forceinline__ Place place(u32 entry, u32& bad) const {
        return listed(pool, layout, slots[entry], bad);
    }
};

// All entries of a sequence by its page table. A page that the pool does not
// have is replaced by page 0, and each of its entries counted.
struct Paged {
    const char* pool;
    const int* table;
    u32 count;
    LatentFp8Pages layout;

    __device__ __forceinline__ Place place(u32 entry, u32& bad) const {
        const int page = table[entry / layout.tokens_per_page];
        bad += page < 0 || static_cast<u32>(page) >= layout.pages;
        const int slot = layout.slot(table, entry);
        return {layout.values(pool, slot), layout.scales<char>(pool, slot)};
    }
};

// The entries of one block.
template <typename Source>
struct Entries {
    Places& places;
    const Window& window;
    const Source& source;
    u32 begin;
    u32 end;

    // Looks up the places of entries `first` to `first + AHEAD - 1`, one for each
    // of as many threads, and counts those that no pool has.
    __device__ __forceinline__ u32 look_up(u32 first, u32 thread) {
        const u32 half = (first - begin) / AHEAD % 2;
        const u32 entry = first + thread;
        u32 bad = 0;
        Place place = {nullptr, nullptr};
        if (entry < end) {
            place = entry < window.count ? listed(window.pool, window.layout, window.slots[entry], bad)
                                         : source.place(entry - window.count, bad);
        }
        places.of[half][thread] = place;
        const u32 present = __ballot_sync(0xffffffffu, place.values != nullptr);
        if (threadIdx.x % 32 == 0) {
            places.present[half][thread / 32] = present;
        }
        return bad;
    }

    // The place of the entry `at` entries after the first.
    __device__ __forceinline__ Place place(u32 at) const {
        return places.of[at / AHEAD % 2][at % AHEAD];
    }

    // Which of the 32 entries around it take part, a bit for each, from `at` on.
    __device__ __forceinline__ u32 present(u32 at) const {
        return places.present[at / AHEAD % 2][at % AHEAD / 32] >> at % 32;
    }
};

}  // namespace sparse
