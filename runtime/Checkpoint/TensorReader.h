// Elements of a stored tensor as f32, whatever its type, in either orientation.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/QuantizedMatrix.h"
#include "runtime/Format/plan.pb.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ztc {

/// A dense tensor in memory or in a mapped file.
struct StoredTensor {
  std::span<const std::byte> data;
  plan::DataType type = plan::F32; ///< F32, BF16, F16 or F64
  /// The wanted matrix is [rows, columns]; the stored one is its transpose, [columns, rows].
  bool transposed = false;
  uint64_t rows = 0, columns = 0; ///< where transposed
  /// Elements are dequantised as they are read: `data` are the codes, `type` is F32.
  std::shared_ptr<const QuantizedMatrix> quantized = nullptr;
};

/// A weight in fewer bits, whose elements are made as they are read.
StoredTensor dequantized(std::shared_ptr<const QuantizedMatrix> matrix);

bool isLoadable(plan::DataType type);

/// Elements [begin, begin + count) of the wanted tensor in row-major order. The range lies inside it.
void readElements(const StoredTensor &tensor, uint64_t begin, uint64_t count, float *out);

/// Gives the pages of a mapped tensor back that readElements has read and will not need again: the memory of a process
/// that loads stays small, whatever the file's size.
void forgetElements(const StoredTensor &tensor, uint64_t begin, uint64_t count);

} // namespace ztc
