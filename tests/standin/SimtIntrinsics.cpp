// What simt images import: NVVM intrinsics under their LLVM names with '_' for '.', and the counting of accesses.
#include "tests/standin/SimtBlock.h"
#include <bit>
#include <cmath>

using namespace ztc::simt;

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

// Before an access to global memory, where the image was made to say so.
void ztc_simt_read(const void *address, int64_t bytes) {
  Block::current().countRead(address, uint64_t(bytes));
}
void ztc_simt_write(const void *address, int64_t bytes) {
  Block::current().countWrite(address, uint64_t(bytes));
}

} // extern "C"
