// A simt image by hand: what EmitSimt makes of a kernel. A symbol takes pointers to its parameters: one pointer per
// operand, then the scalars, then the extent of the parallel range.
#include <cstdint>

extern "C" {

int32_t llvm_nvvm_read_ptx_sreg_tid_x();
int32_t llvm_nvvm_read_ptx_sreg_ntid_x();
int32_t llvm_nvvm_read_ptx_sreg_ctaid_x();
void llvm_nvvm_barrier_cta_sync_aligned_all(int32_t);
void llvm_nvvm_bar_warp_sync(int32_t mask);
float llvm_nvvm_shfl_sync_bfly_f32(int32_t mask, float value, int32_t lane, int32_t clamp);
float llvm_nvvm_shfl_sync_down_f32(int32_t mask, float value, int32_t lane, int32_t clamp);
void llvm_nvvm_mma_m16n8k16_row_col_bf16(void *result, const void *operands);
void ztc_simt_copy_async(void *to, const void *from, int64_t bytes, const void *variable, int64_t variableBytes);
void llvm_nvvm_cp_async_commit_group();
void llvm_nvvm_cp_async_wait_group(int32_t pending);
void ztc_simt_read(const void *address, int64_t bytes);
void ztc_simt_write(void *address, int64_t bytes);
void ztc_simt_shared_read(const void *address, int64_t bytes, const void *variable, int64_t variableBytes);
void ztc_simt_shared_write(const void *address, int64_t bytes, const void *variable, int64_t variableBytes);

static float load(const float *address) {
  ztc_simt_read(address, sizeof(float));
  return *address;
}
static void store(float *address, float value) {
  ztc_simt_write(address, sizeof(float));
  *address = value;
}

/// Operand y: every block writes y[0].
void writes_what_others_write(void *const *parameters) {
  store(*static_cast<float *const *>(parameters[0]), 1);
}

/// Operands x, y; scalar: elements per unit. y := 2 x + 1; one block takes one unit.
void twice_plus_one(void *const *parameters) {
  const auto *x = *static_cast<float *const *>(parameters[0]);
  auto *y = *static_cast<float *const *>(parameters[1]);
  const int64_t width = *static_cast<const int64_t *>(parameters[2]);
  const int64_t extent = *static_cast<const int64_t *>(parameters[3]);
  const int64_t row = llvm_nvvm_read_ptx_sreg_ctaid_x();
  if (row >= extent)
    return;
  for (int64_t c = llvm_nvvm_read_ptx_sreg_tid_x(); c < width; c += llvm_nvvm_read_ptx_sreg_ntid_x())
    store(y + row * width + c, 2 * load(x + row * width + c) + 1);
}

/// As above, y += 2 x + 1: the variant that adds.
void twice_plus_one_add(void *const *parameters) {
  const auto *x = *static_cast<float *const *>(parameters[0]);
  auto *y = *static_cast<float *const *>(parameters[1]);
  const int64_t width = *static_cast<const int64_t *>(parameters[2]);
  const int64_t row = llvm_nvvm_read_ptx_sreg_ctaid_x();
  for (int64_t c = llvm_nvvm_read_ptx_sreg_tid_x(); c < width; c += llvm_nvvm_read_ptx_sreg_ntid_x())
    store(y + row * width + c, load(y + row * width + c) + (2 * load(x + row * width + c) + 1));
}

/// Operands x, sums; scalar: elements per row. One block of up to 1024 threads, whole warps, sums one row: lanes by
/// shuffles, warps through shared memory.
static float warpSums[32]; // shared memory
void row_sum(void *const *parameters) {
  const auto *x = *static_cast<float *const *>(parameters[0]);
  auto *sums = *static_cast<float *const *>(parameters[1]);
  const int64_t width = *static_cast<const int64_t *>(parameters[2]);
  const int64_t row = llvm_nvvm_read_ptx_sreg_ctaid_x();
  const int32_t thread = llvm_nvvm_read_ptx_sreg_tid_x(), threads = llvm_nvvm_read_ptx_sreg_ntid_x();
  float sum = 0;
  for (int64_t c = thread; c < width; c += threads)
    sum += load(x + row * width + c);
  for (int32_t distance = 16; distance > 0; distance /= 2)
    sum += llvm_nvvm_shfl_sync_bfly_f32(-1, sum, distance, 31);
  if (thread % 32 == 0)
    warpSums[thread / 32] = sum;
  llvm_nvvm_barrier_cta_sync_aligned_all(0);
  if (thread >= 32)
    return;
  sum = thread < threads / 32 ? warpSums[thread] : 0;
  for (int32_t distance = 16; distance > 0; distance /= 2)
    sum += llvm_nvvm_shfl_sync_down_f32(-1, sum, distance, 31);
  if (thread == 0)
    store(sums + row, sum);
}

/// Operands a (16 x 16), b (16 x 8), both bf16, c (16 x 8, f32): c := a b by one warp. Elements of fragments as the PTX
/// ISA numbers them.
void multiplies_matrices(void *const *parameters) {
  const auto *a = *static_cast<const uint16_t *const *>(parameters[0]);
  const auto *b = *static_cast<const uint16_t *const *>(parameters[1]);
  auto *c = *static_cast<float *const *>(parameters[2]);
  const int32_t lane = llvm_nvvm_read_ptx_sreg_tid_x(), group = lane / 4, inGroup = lane % 4;
  struct {
    uint16_t a[8], b[4];
    float c[4];
  } operands = {};
  float result[4];
  for (int32_t i = 0; i < 8; ++i) {
    const int32_t row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const int32_t column = i < 4 ? inGroup * 2 + (i & 1) : inGroup * 2 + (i & 1) + 8;
    operands.a[i] = a[row * 16 + column];
  }
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t row = i < 2 ? inGroup * 2 + (i & 1) : inGroup * 2 + (i & 1) + 8;
    operands.b[i] = b[row * 8 + group];
  }
  llvm_nvvm_mma_m16n8k16_row_col_bf16(result, &operands);
  for (int32_t i = 0; i < 4; ++i)
    c[(i < 2 ? group : group + 8) * 8 + inGroup * 2 + (i & 1)] = result[i];
}

/// Operands x (4 a thread), y; scalars: bytes to copy, groups that may be on their way, whether there is a barrier.
/// Each thread copies its 16 bytes of x in one group, and the next group is empty; y[thread] := the first number of the
/// next thread.
static float copied[64 * 4]; // shared memory
void copies_beside(void *const *parameters) {
  const auto *x = *static_cast<const float *const *>(parameters[0]);
  auto *y = *static_cast<float *const *>(parameters[1]);
  const int64_t bytes = *static_cast<const int64_t *>(parameters[2]);
  const int64_t pending = *static_cast<const int64_t *>(parameters[3]);
  const int64_t barrier = *static_cast<const int64_t *>(parameters[4]);
  const int32_t thread = llvm_nvvm_read_ptx_sreg_tid_x(), threads = llvm_nvvm_read_ptx_sreg_ntid_x();
  ztc_simt_copy_async(copied + thread * 4, x + thread * 4, bytes, copied, sizeof copied);
  llvm_nvvm_cp_async_commit_group();
  llvm_nvvm_cp_async_commit_group();
  llvm_nvvm_cp_async_wait_group(int32_t(pending));
  if (barrier)
    llvm_nvvm_barrier_cta_sync_aligned_all(0);
  const float *other = copied + (thread + 1) % threads * 4;
  ztc_simt_shared_read(other, sizeof(float), copied, sizeof copied);
  store(y + thread, *other);
}

/// Wrong: thread 0 does not come to the barrier.
void leaves_out_a_barrier(void *const *) {
  if (llvm_nvvm_read_ptx_sreg_tid_x() != 0)
    llvm_nvvm_barrier_cta_sync_aligned_all(0);
}

/// Wrong: the mask names a lane that is not in the block where that has 16 threads, and reads from it.
void shuffles_with_nobody(void *const *parameters) {
  auto *y = *static_cast<float *const *>(parameters[0]);
  y[llvm_nvvm_read_ptx_sreg_tid_x()] = llvm_nvvm_shfl_sync_bfly_f32(-1, 1, 16, 31);
}

/// Wrong: lane 3 has left before the shuffle.
void shuffles_with_one_that_left(void *const *) {
  if (llvm_nvvm_read_ptx_sreg_tid_x() != 3)
    llvm_nvvm_shfl_sync_bfly_f32(-1, 1, 1, 31);
}

/// Wrong: reads 1024 floats past its operand.
void reads_outside(void *const *parameters) {
  const auto *x = *static_cast<float *const *>(parameters[0]);
  load(x + (1 << 20));
}

/// Scalars: an offset in floats from the beginning of 32 floats of shared memory, whether it writes there. Wrong where
/// the float there is not one of them.
void touches_shared_memory(void *const *parameters) {
  const int64_t offset = *static_cast<const int64_t *>(parameters[0]);
  const bool writes = *static_cast<const int64_t *>(parameters[1]) != 0;
  (writes ? ztc_simt_shared_write : ztc_simt_shared_read)(
      reinterpret_cast<const void *>(reinterpret_cast<int64_t>(warpSums) + offset * int64_t(sizeof(float))),
      sizeof(float), warpSums, sizeof warpSums);
}

/// Operand y, as many floats as threads; scalar: after writing its own, 0: no barrier, 1: one of the block, 2: one of
/// the warp; then each thread reads the next one's. Wrong where that is not ordered.
void reads_the_next(void *const *parameters) {
  auto *y = *static_cast<float *const *>(parameters[0]);
  const int64_t barrier = *static_cast<const int64_t *>(parameters[1]);
  const int32_t thread = llvm_nvvm_read_ptx_sreg_tid_x(), threads = llvm_nvvm_read_ptx_sreg_ntid_x();
  store(y + thread, 1);
  if (barrier == 1)
    llvm_nvvm_barrier_cta_sync_aligned_all(0);
  if (barrier == 2)
    llvm_nvvm_bar_warp_sync(-1);
  load(y + (thread + 1) % threads);
}

} // extern "C"
