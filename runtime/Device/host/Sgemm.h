// Products of f32 matrices in one thread, by kernels of our own: where they are faster than the library's.
#pragma once
#include <cstdint>

namespace ztc {

struct MatmulProblem;

/// Whether this processor runs the kernels, and they are the better choice on it: AVX2 and FMA, but no AVX-512, for
/// which oneDNN has kernels twice as wide.
bool prefersSgemm();

/// Bytes that sgemm() wants as scratch for a problem. Any alignment of 64 does.
uint64_t sgemmScratchBytes(const MatmulProblem &problem);

/// C = alpha * op(A) op(B) (+ C), all f32: see MatmulProblem. An element of C is a chain of fused multiply-adds over
/// each block of k, times alpha, blocks added in order; the blocks depend on k alone. So its bits do not depend on m, n
/// or the place of the element: however a product is cut into tiles, the result is the same.
void sgemm(const MatmulProblem &problem, const float *a, const float *b, float *c, void *scratch);

} // namespace ztc
