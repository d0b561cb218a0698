// The same source for NVRTC, for the C++ kernels of the CPU and, in tests, for an emulation of the GPU's.
//
// A kernel is a sequence of phases: SL_EACH_THREAD(t) { ... } runs for every thread t of the block and ends with a
// barrier. In the emulation it is a loop over t, so that a kernel keeps nothing in variables from phase to phase but what
// is the same for all threads; the rest is in shared memory. A phase may end with `continue`, never `break` or `return`.
//
// A kernel has one argument, a struct of pointers, i64 and double: all have 8 bytes, so that Python packs it from the
// field names that it reads here.
#pragma once

#ifndef __CUDACC__
#include <algorithm>
#include <bit>
#include <cmath>
#endif

namespace sl {

using i64 = long long;
using u64 = unsigned long long;
using i32 = int;
using u32 = unsigned;
using i16 = short;
using u8 = unsigned char;
using i8 = signed char;

#ifdef __CUDACC__

#define SL_INLINE __device__ __forceinline__
#define SL_KERNEL(name, Args) extern "C" __global__ void name(const Args args)
#define SL_EACH_THREAD(t) for (int t = threadIdx.x, once = 1; once; once = 0, __syncthreads())
#define SL_SHARED(Type, name)            \
    extern __shared__ double sl_shared[]; \
    Type* name = reinterpret_cast<Type*>(sl_shared)
#define SL_THREADS static_cast<int>(blockDim.x)
#define SL_BLOCK static_cast<i64>(blockIdx.x)

SL_INLINE void atomic_add(i32* to, i32 value) { atomicAdd(to, value); }
SL_INLINE void atomic_add(i64* to, i64 value) {
    atomicAdd(reinterpret_cast<u64*>(to), static_cast<u64>(value));
}
SL_INLINE void atomic_min(i32* to, i32 value) { atomicMin(to, value); }
SL_INLINE void atomic_max(i32* to, i32 value) { atomicMax(to, value); }
SL_INLINE float nearest(float x) { return rintf(x); }
SL_INLINE double nearest(double x) { return rint(x); }
SL_INLINE float size_of(float x) { return fabsf(x); }
SL_INLINE float whole_of(float x) { return floorf(x); }
SL_INLINE float float_of_bits(i32 bits) { return __int_as_float(bits); }
SL_INLINE i32 bits_of(float x) { return __float_as_int(x); }

#else

#define SL_INLINE inline __attribute__((always_inline))

SL_INLINE float nearest(float x) { return std::nearbyint(x); }
SL_INLINE double nearest(double x) { return std::nearbyint(x); }
SL_INLINE float size_of(float x) { return std::fabs(x); }
SL_INLINE float whole_of(float x) { return std::floor(x); }
SL_INLINE float float_of_bits(i32 bits) { return std::bit_cast<float>(bits); }
SL_INLINE i32 bits_of(float x) { return std::bit_cast<i32>(x); }

#endif

#ifdef SL_EMULATION

#define SL_KERNEL(name, Args)                                                            \
    static void name##_block(const Args& args);                                          \
    extern "C" void name(const Args* args, i64 n_blocks, int threads, double* shared) {   \
        sl_threads = threads;                                                            \
        sl_shared = shared;                                                              \
        for (sl_block = 0; sl_block < n_blocks; ++sl_block) name##_block(*args);          \
    }                                                                                    \
    static void name##_block(const Args& args)
#define SL_EACH_THREAD(t) for (int t = 0; t < sl_threads; ++t)
#define SL_SHARED(Type, name) Type* name = reinterpret_cast<Type*>(sl_shared)
#define SL_THREADS sl_threads
#define SL_BLOCK sl_block

static thread_local int sl_threads;
static thread_local i64 sl_block;
static thread_local double* sl_shared;

SL_INLINE void atomic_add(i32* to, i32 value) { *to += value; }
SL_INLINE void atomic_add(i64* to, i64 value) { *to += value; }
SL_INLINE void atomic_min(i32* to, i32 value) { *to = std::min(*to, value); }
SL_INLINE void atomic_max(i32* to, i32 value) { *to = std::max(*to, value); }

#endif

// std::min and std::max
template <typename T>
SL_INLINE T least(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
SL_INLINE T largest(T a, T b) {
    return a < b ? b : a;
}

// The finaliser of splitmix64: a 64-bit hash of a 64-bit key.
SL_INLINE u64 mix64(u64 key) {
    key += 0x9e3779b97f4a7c15ULL;
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
    return key ^ (key >> 31);
}

}  // namespace sl
