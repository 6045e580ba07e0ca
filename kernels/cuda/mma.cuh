// Tensor cores and asynchronous copies as every architecture from 8.0 on has
// them: mma.sync, ldmatrix, cp.async.
//
// Fragments of m16n8k16, by lane (row = lane / 4, pair = lane % 4); each word
// holds two neighbouring 16-bit values:
//
//   a[0]: row,     k = 2 pair      a[1]: row + 8, k = 2 pair
//   a[2]: row,     k = 2 pair + 8  a[3]: row + 8, k = 2 pair + 8
//   b[0]: column = row, k = 2 pair      b[1]: the same, k = 2 pair + 8
//   d[0], d[1]: row,     columns 2 pair, 2 pair + 1
//   d[2], d[3]: row + 8, columns 2 pair, 2 pair + 1

#pragma once

#include "common.cuh"

// d += a · b, bf16 in, f32 out.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += a · b, f16 in, f32 out.
__device__ __forceinline__ void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The address of shared memory, as the instructions below want it.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// Four 8 × 8 matrices of 16-bit values. Lane 8 i + r gives the address of row r
// of matrix i, 16 bytes of shared memory, aligned; word i of lane l is columns
// 2 (l % 4) and the next of row l / 4 of matrix i.
__device__ __forceinline__ void load_matrices(u32 (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(u32 (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Starts to copy 16 bytes, or to write 16 zero bytes when not `valid`; then
// nothing is read. The copy goes past L1: what is streamed is read once.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool valid = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0)
                 : "memory");
}

// Ends a group of copies of this thread.
__device__ __forceinline__ void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `Pending` of this thread's newest groups are unfinished.
// Other threads see what was copied after a barrier.
template <int Pending>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(Pending) : "memory");
}
