// The geometry of a pool of pages; the same bytes as PageLayout in
// src/layout/mod.rs.

#pragma once

#include "common.cuh"

struct PageLayout {
    u32 value_bytes;
    u32 scale_bytes;
    u32 tokens_per_page;
    u32 scale_offset;
    u32 page_bytes;
    u32 pages;

    // Dimensions of a token whose values are bf16.
    __device__ __forceinline__ u32 dim() const { return value_bytes / 2; }

    __device__ __forceinline__ bool holds(int slot) const {
        return slot >= 0 && static_cast<u64>(slot) < static_cast<u64>(tokens_per_page) * pages;
    }

    // Where the values of a token begin. The pool holds the slot.
    template <typename Pool>
    __device__ __forceinline__ Pool* values(Pool* pool, int slot) const {
        const u32 page = static_cast<u32>(slot) / tokens_per_page;
        const u32 token = static_cast<u32>(slot) % tokens_per_page;
        const u64 bytes = static_cast<u64>(page) * page_bytes + static_cast<u64>(token) * value_bytes;
        return pool + bytes / sizeof(Pool);
    }

    // Where the scales of a token begin. The pool holds the slot.
    template <typename Scale>
    __device__ __forceinline__ Scale* scales(void* pool, int slot) const {
        return reinterpret_cast<Scale*>(static_cast<char*>(pool) + scale_position(slot));
    }

    template <typename Scale>
    __device__ __forceinline__ const Scale* scales(const void* pool, int slot) const {
        return reinterpret_cast<const Scale*>(static_cast<const char*>(pool) + scale_position(slot));
    }

    __device__ __forceinline__ u64 scale_position(int slot) const {
        const u32 page = static_cast<u32>(slot) / tokens_per_page;
        const u32 token = static_cast<u32>(slot) % tokens_per_page;
        return static_cast<u64>(page) * page_bytes + scale_offset + static_cast<u64>(token) * scale_bytes;
    }

    // The slot of an entry of the sequence whose pages are `table`. A page that
    // the pool does not have is replaced by page 0, which belongs to nobody.
    __device__ __forceinline__ int slot(const int* table, u32 entry) const {
        int page = table[entry / tokens_per_page];
        if (page < 0 || static_cast<u32>(page) >= pages) {
            page = 0;
        }
        return static_cast<int>(static_cast<u32>(page) * tokens_per_page + entry % tokens_per_page);
    }
};

static_assert(sizeof(PageLayout) == page_layout::BYTES, "the host's PageLayout");

// Each pool's geometry is a type of its own, as on the host.
struct IndexKeyPages : PageLayout {};
struct IndexKeyFp8Pages : PageLayout {};
struct LatentPages : PageLayout {};
struct LatentFp8Pages : PageLayout {
    static constexpr u32 NOPE = latent_fp8::NOPE;
    static constexpr u32 ROPE = latent_fp8::ROPE;
    static constexpr u32 GROUP = latent_fp8::GROUP;
    static constexpr u32 DIM = NOPE + ROPE;
};
