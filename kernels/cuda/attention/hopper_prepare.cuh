// The preparing half of hopper.cuh: latents out of the pools, into the places where the
// products of the computing half find them.

#pragma once

#include "hopper_block.cuh"
#include "wgmma.cuh"

namespace hopper {

__device__ __forceinline__ void store_shared(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// 16 bytes, or zero when not `valid`; then nothing is read.
__device__ __forceinline__ uint4 load_once(const char* from, bool valid) {
    uint4 word;
    asm volatile(
        "{ .reg .pred valid; setp.ne.u32 valid, %5, 0; "
        "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "
        "@valid ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(word.x), "=&r"(word.y), "=&r"(word.z), "=&r"(word.w)
        : "l"(from), "r"(static_cast<u32>(valid)));
    return word;
}

// What a preparing thread does: of an entry, 16 bytes of each panel of its group
// and, of the rotated one, 32. Threads 0 to 3 and 4 to 7 of eight have two
// entries, whose rows have different parity, so that the words that they write
// lie in different banks.
template <typename Source>
struct Preparer {
    Shared& shared;
    sparse::Entries<Source>& all;
    u32 group;
    u32 entry;
    u32 part;
    // Of the next step: where it is, and what was read of it.
    sparse::Place place;
    uint4 raw[OWN_PANELS];
    uint4 rotated;
    u32 scales;

    __device__ __forceinline__ bool valid() const { return place.values != nullptr; }

    __device__ __forceinline__ void find(u32 step) {
        place = {nullptr, nullptr};
        if (all.begin + step * ENTRIES < all.end) {
            place = all.place(step * ENTRIES + entry);
        }
    }

    // A masked entry is zero, so that its weight of zero meets no NaN.
    __device__ __forceinline__ void read(u32 panel) {
        if (panel < 3 || group == 0) {
            const u32 offset = (group * OWN_PANELS + panel) * LatentFp8Pages::GROUP + part * 16;
            raw[panel] = load_once(place.values + offset, valid());
        } else {
            const u32 offset = LatentFp8Pages::NOPE + part * 32;
            raw[panel] = load_once(place.values + offset, valid());
            rotated = load_once(place.values + offset + 16, valid());
        }
    }

    __device__ __forceinline__ void read_scales() {
        scales = valid() ? reinterpret_cast<const u32*>(place.scales)[group] : 0;
    }

    // Writes what was read, and reads step `next` on the way.
    __device__ __forceinline__ void write(u32 next, u32 buffer) {
        const u32 row = shared_address(shared.latents[buffer]) + group * OWN_PANELS * LATENT_PANEL + entry * 128;
        const u32 first = row + ((2 * part) ^ entry % 8) * 16;
        const u32 second = row + ((2 * part + 1) ^ entry % 8) * 16;
        const u32 own_scales = scales;
        find(next);
        read_scales();
#pragma unroll
        for (u32 i = 0; i < OWN_PANELS; ++i) {
            u32 words[8];
            if (i < 3 || group == 0) {
                sparse::dequantise(words, raw[i], own_scales >> 8 * i & 0xffu);
            } else {
                const u32 both[8] = {
                    raw[i].x, raw[i].y, raw[i].z, raw[i].w, rotated.x, rotated.y, rotated.z, rotated.w};
#pragma unroll
                for (u32 j = 0; j < 8; ++j) {
                    words[j] = both[j];
                }
            }
            read(i);
            store_shared(first + i * LATENT_PANEL, words[0], words[1], words[2], words[3]);
            store_shared(second + i * LATENT_PANEL, words[4], words[5], words[6], words[7]);
        }
    }
};

// What the threads of a preparing group do: hand over each step in which an entry
// takes part, and then an empty one. Returns how many entries no pool has.
template <typename Source>
__device__ __forceinline__ u32 prepare(Shared& shared, sparse::Entries<Source>& all, u32 group, u32 thread) {
    const u32 steps = (all.end - all.begin + ENTRIES - 1) / ENTRIES;
    u32 known = 0;
    u32 bad = 0;
    // The first step from `step` on in which an entry takes part.
    const auto next = [&](u32 step) {
        for (; step < steps; ++step) {
            if (step * ENTRIES >= known) {
                // No thread still looks at what is overwritten.
                come_and_wait(PREPARING);
                bad += all.look_up(all.begin + known, thread + group * GROUP_THREADS);
                known += sparse::AHEAD;
                come_and_wait(PREPARING);
            }
            if (all.present(step * ENTRIES) != 0) {
                break;
            }
        }
        return step;
    };
    u32 step = next(0);
    Preparer<Source> own = {shared, all, group, thread / 4, thread % 4};
    own.find(step);
    own.read_scales();
#pragma unroll
    for (u32 i = 0; i < OWN_PANELS; ++i) {
        own.read(i);
    }
    u32 handed = 0;
    u32 buffer = 0;
    while (true) {
        if (handed >= BUFFERS) {
            come_and_wait(emptied(group, buffer));
        }
        const u32 present = step < steps ? all.present(step * ENTRIES) : 0;
        if (thread == 0) {
            shared.present[group][buffer] = present;
        }
        if (step >= steps) {
            come(filled(group, buffer));
            break;
        }
        step = next(step + 1);
        own.write(step, buffer);
        publish_to_products();
        come(filled(group, buffer));
        ++handed;
        buffer = buffer + 1 < BUFFERS ? buffer + 1 : 0;
    }
    // All that was handed over comes back before the block ends.
    for (u32 left = min(handed, BUFFERS - 1); left > 0; --left) {
        come_and_wait(emptied(group, (handed - left) % BUFFERS));
    }
    return bad;
}

}  // namespace hopper
