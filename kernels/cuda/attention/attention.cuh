// Which form of the attention a device runs: that of Hopper on Hopper, else the
// one that every architecture has. Both leave the same, in an order of their own.

#pragma once

#include "hopper.cuh"
#include "sparse.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
namespace attention = hopper;
#else
namespace attention = sparse;
#endif
