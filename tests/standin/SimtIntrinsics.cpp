// What simt images import: NVVM intrinsics under their LLVM names with '_' for '.', and the counting of accesses.
// Intrinsics over vectors and matrices take and give them in memory: (void *result, const void *operands).
#include "runtime/Core/FloatTypes.h"
#include "tests/standin/SimtBlock.h"
#include <bit>
#include <cmath>
#include <cstring>

using namespace ztc::simt;

namespace {
/// PTX ISA, mma.m16n8k16 over 16-bit floats: lane l has rows l / 4 and l / 4 + 8 of A (16 x 16, row-major) and of C (16
/// x 8), column l / 4 of B (16 x 8), of the other dimension 2 (l % 4) and the next, and those 8 further on.
template <float (*widen)(uint16_t)> void multiply(LaneRequest *const *lanes) {
  struct Operands {
    uint16_t a[4][2], b[2][2];
    float c[2][2];
  };
  float a[16][16], b[16][8], c[16][8];
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    Operands own;
    std::memcpy(&own, lanes[lane]->operands, sizeof own);
    const uint32_t outer = lane / 4, inner = lane % 4 * 2;
    for (uint32_t i = 0; i < 2; ++i)
      for (uint32_t half = 0; half < 2; ++half) {
        for (uint32_t row = 0; row < 2; ++row)
          a[outer + 8 * row][inner + 8 * half + i] = widen(own.a[2 * half + row][i]);
        b[inner + 8 * half + i][outer] = widen(own.b[half][i]);
        c[outer + 8 * half][inner + i] = own.c[half][i];
      }
  }
  for (uint32_t k = 0; k < 16; ++k)
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t column = 0; column < 8; ++column)
        c[row][column] += a[row][k] * b[k][column]; // the product is exact
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    auto *result = static_cast<float *>(lanes[lane]->results);
    for (uint32_t i = 0; i < 4; ++i)
      result[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

/// PTX ISA, ldmatrix .x4 of 8 x 8 16-bit elements: lanes 8 i to 8 i + 7 give the rows' addresses of matrix i; lane l
/// gets of each matrix two elements of row l / 4, transposed: of column l / 4.
template <bool transposed> void loadMatrices(LaneRequest *const *lanes) {
  for (uint32_t matrix = 0; matrix < 4; ++matrix) {
    uint16_t rows[8][8];
    for (uint32_t row = 0; row < 8; ++row) {
      const void *address = nullptr;
      std::memcpy(&address, lanes[matrix * 8 + row]->operands, sizeof address);
      std::memcpy(rows[row], address, sizeof rows[row]);
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      auto *result = static_cast<uint16_t *>(lanes[lane]->results) + matrix * 2;
      for (uint32_t i = 0; i < 2; ++i)
        result[i] = transposed ? rows[lane % 4 * 2 + i][lane / 4] : rows[lane / 4][lane % 4 * 2 + i];
    }
  }
}

/// Two f32: the first becomes the upper half.
template <uint16_t (*narrow)(float)> void narrowPair(void *result, const void *operands) {
  float values[2];
  std::memcpy(values, operands, sizeof values);
  const uint16_t halves[] = {narrow(values[1]), narrow(values[0])};
  std::memcpy(result, halves, sizeof halves);
}
} // namespace

extern "C" {

// Special registers.
#define ZTC_REGISTER(name, value)                                                                                      \
  int32_t llvm_nvvm_read_ptx_sreg_##name() {                                                                           \
    return int32_t(value);                                                                                             \
  }
#define ZTC_REGISTERS(name, dim)                                                                                       \
  ZTC_REGISTER(name##_x, dim.x)                                                                                        \
  ZTC_REGISTER(name##_y, dim.y)                                                                                        \
  ZTC_REGISTER(name##_z, dim.z)
ZTC_REGISTERS(tid, Block::current().self().index)
ZTC_REGISTERS(ntid, Block::current().shape().block)
ZTC_REGISTERS(ctaid, Block::current().blockIndex())
ZTC_REGISTERS(nctaid, Block::current().shape().grid)
ZTC_REGISTER(laneid, Block::current().self().lane())
ZTC_REGISTER(warpid, Block::current().self().warp())
ZTC_REGISTER(nwarpid, (Block::current().shape().block.count() + kWarpLanes - 1) / kWarpLanes)
ZTC_REGISTER(warpsize, kWarpLanes)
ZTC_REGISTER(lanemask_eq, 1u << Block::current().self().lane())
ZTC_REGISTER(lanemask_lt, (1u << Block::current().self().lane()) - 1)

// Barriers. Memory is one for all threads: fences have nothing to do.
void llvm_nvvm_barrier0() {
  Block::current().barrier();
}
void llvm_nvvm_barrier_cta_sync_aligned_all(int32_t) {
  Block::current().barrier();
}
void llvm_nvvm_barrier_cta_sync_all(int32_t) {
  Block::current().barrier();
}
void llvm_nvvm_bar_warp_sync(int32_t mask) {
  LaneRequest request{.operation = WarpOperation::Barrier, .mask = uint32_t(mask)};
  Block::current().meet(request);
}
void llvm_nvvm_membar_cta() {}
void llvm_nvvm_membar_gl() {}
void llvm_nvvm_membar_sys() {}

// Shuffles. LLVM returns {value, i1} in two registers, as C does for two 64-bit integers.
struct ValueAndFlag {
  uint64_t value, flag;
};
static LaneRequest shuffle(WarpOperation operation, int32_t mask, uint32_t value, int32_t lane, int32_t clamp) {
  LaneRequest request{
      .operation = operation, .mask = uint32_t(mask), .value = value, .lane = uint32_t(lane), .clamp = uint32_t(clamp)};
  Block::current().meet(request);
  return request;
}
#define ZTC_SHUFFLE(name, operation)                                                                                   \
  int32_t llvm_nvvm_shfl_sync_##name##_i32(int32_t mask, int32_t value, int32_t lane, int32_t clamp) {                 \
    return int32_t(shuffle(operation, mask, uint32_t(value), lane, clamp).result);                                     \
  }                                                                                                                    \
  float llvm_nvvm_shfl_sync_##name##_f32(int32_t mask, float value, int32_t lane, int32_t clamp) {                     \
    return std::bit_cast<float>(shuffle(operation, mask, std::bit_cast<uint32_t>(value), lane, clamp).result);         \
  }                                                                                                                    \
  ValueAndFlag llvm_nvvm_shfl_sync_##name##_i32p(int32_t mask, int32_t value, int32_t lane, int32_t clamp) {           \
    const LaneRequest done = shuffle(operation, mask, uint32_t(value), lane, clamp);                                   \
    return {done.result, done.valid};                                                                                  \
  }
ZTC_SHUFFLE(idx, WarpOperation::ShuffleIndex)
ZTC_SHUFFLE(up, WarpOperation::ShuffleUp)
ZTC_SHUFFLE(down, WarpOperation::ShuffleDown)
ZTC_SHUFFLE(bfly, WarpOperation::ShuffleXor)

// Votes. Of an i1 that LLVM passes only the lowest bit is defined.
static uint32_t vote(WarpOperation operation, int32_t mask, bool value) {
  LaneRequest request{.operation = operation, .mask = uint32_t(mask), .value = value};
  Block::current().meet(request);
  return request.result;
}
bool llvm_nvvm_vote_all_sync(int32_t mask, int32_t value) {
  return vote(WarpOperation::All, mask, value & 1) != 0;
}
bool llvm_nvvm_vote_any_sync(int32_t mask, int32_t value) {
  return vote(WarpOperation::Any, mask, value & 1) != 0;
}
int32_t llvm_nvvm_vote_ballot_sync(int32_t mask, int32_t value) {
  return int32_t(vote(WarpOperation::Ballot, mask, value & 1));
}
int32_t llvm_nvvm_activemask() {
  return int32_t(Block::current().liveLanes());
}

// Arithmetic, rounded to nearest even.
float llvm_nvvm_sqrt_rn_f(float x) {
  return std::sqrt(x);
}
float llvm_nvvm_div_rn_f(float x, float y) {
  return x / y;
}
float llvm_nvvm_rcp_rn_f(float x) {
  return 1 / x;
}
float llvm_nvvm_fma_rn_f(float x, float y, float z) {
  return std::fma(x, y, z);
}
float llvm_nvvm_add_rn_f(float x, float y) {
  return x + y;
}
float llvm_nvvm_mul_rn_f(float x, float y) {
  return x * y;
}

// Matrices, and the fragments of them that lanes hold.
void llvm_nvvm_mma_m16n8k16_row_col_bf16(void *result, const void *operands) {
  Block::current().together(multiply<ztc::fromBf16>, operands, result);
}
void llvm_nvvm_mma_m16n8k16_row_col_f32_f32(void *result, const void *operands) {
  Block::current().together(multiply<ztc::fromF16>, operands, result);
}
void llvm_nvvm_ldmatrix_sync_aligned_m8n8_x4_b16_p3(void *result, const void *operands) {
  Block::current().together(loadMatrices<false>, operands, result);
}
void llvm_nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16_p3(void *result, const void *operands) {
  Block::current().together(loadMatrices<true>, operands, result);
}
void llvm_nvvm_ff2bf16x2_rn(void *result, const void *operands) {
  narrowPair<ztc::toBf16>(result, operands);
}
void llvm_nvvm_ff2f16x2_rn(void *result, const void *operands) {
  narrowPair<ztc::toF16>(result, operands);
}

// Copies beside the threads (cp.async): from global memory 16 bytes into shared memory, of which `bytes` are read and
// the others are 0.
void ztc_simt_copy_async(void *to, const void *from, int64_t bytes, const void *variable, int64_t variableBytes) {
  Block::current().copyAsync({to, variable, uint64_t(variableBytes)}, from, uint64_t(bytes),
                             __builtin_return_address(0));
}
void llvm_nvvm_cp_async_commit_group() {
  Block::current().commitCopies();
}
void llvm_nvvm_cp_async_wait_group(int32_t pending) {
  Block::current().waitForCopies(uint32_t(pending), __builtin_return_address(0));
}

// Before an access to memory, where the image was made to say so. The sanitizer shows who called.
void ztc_simt_read(const void *address, int64_t bytes) {
  Block::current().countRead(address, uint64_t(bytes), __builtin_return_address(0));
}
void ztc_simt_write(const void *address, int64_t bytes) {
  Block::current().countWrite(address, uint64_t(bytes), __builtin_return_address(0));
}
// Of memory that any thread may write at any time.
void ztc_simt_atomic_write(const void *address, int64_t bytes) {
  Block::current().countAtomicWrite(address, uint64_t(bytes));
}
// Shared memory: `variable` is all that the kernel has of it.
void ztc_simt_shared_read(const void *address, int64_t bytes, const void *variable, int64_t variableBytes) {
  Block::current().noteShared(false, address, uint64_t(bytes), variable, uint64_t(variableBytes),
                              __builtin_return_address(0));
}
void ztc_simt_shared_write(const void *address, int64_t bytes, const void *variable, int64_t variableBytes) {
  Block::current().noteShared(true, address, uint64_t(bytes), variable, uint64_t(variableBytes),
                              __builtin_return_address(0));
}

} // extern "C"
