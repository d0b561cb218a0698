// The same kernel source for NVRTC and, for tests, for a C++ compiler.
//
// A kernel is a sequence of phases: SL_EACH_THREAD(t) { ... } runs for every thread t of the block and ends with a
// barrier. On the host it is a loop over t, so that a kernel keeps nothing in variables from phase to phase but what is
// the same for all threads; the rest is in shared memory. A phase may end with `continue`, never `break` or `return`.
//
// A kernel has one argument, a struct of pointers, i64 and double: all have 8 bytes, so that Python packs it from the
// field names that it reads here.
#pragma once

using i64 = long long;
using i32 = int;
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
SL_INLINE void atomic_min(i32* to, i32 value) { atomicMin(to, value); }

#else

#include <algorithm>
#include <cmath>

#define SL_INLINE inline __attribute__((always_inline))
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
SL_INLINE void atomic_min(i32* to, i32 value) { *to = std::min(*to, value); }

#endif
