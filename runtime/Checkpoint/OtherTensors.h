// What a model's folder holds beside the tensors that the plan trains: a vision tower, a projector, buffers.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/QuantizedMatrices.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ztc {

struct QuantizedCheckpoint;

/// One tensor that goes along: its bytes as they are stored, or what its codes in fewer bits stand for.
struct CopiedTensor {
  SafetensorsSpec spec;
  std::span<const std::byte> bytes;
  const QuantizedMatrix *quantized = nullptr; ///< written in the type of `spec`
};

/// One file before it is written.
struct CopiedFile {
  std::string name; ///< set by who knows how many files there are
  SafetensorsLayout layout;
  std::vector<CopiedTensor> tensors; ///< by offset of the layout
  uint64_t tensorBytes = 0;          ///< without the header

  Status write(const File &to) const;
};

/// The tensors of a checkpoint that are not parameters of the plan, mapped. A matrix that repeats a parameter's values
/// (a head that is stored although it is tied) goes with that parameter and is left out. What is stored in fewer bits
/// is dequantised, as the parameters are, since an export says of none how it is stored.
class OtherTensors {
public:
  /// None at all.
  OtherTensors() = default;
  /// Of `weights`, a folder or file. Nothing where no parameter of the plan is stored there.
  static StatusOr<OtherTensors> open(const plan::Plan &plan, const std::string &weights);

  size_t count() const { return tensors_.size(); }
  /// In the order of their names; a new file begins before one would exceed `largestFileBytes`.
  std::vector<CopiedFile> files(uint64_t largestFileBytes) const;

private:
  std::shared_ptr<const QuantizedCheckpoint> checkpoint_;
  std::vector<CopiedTensor> tensors_; ///< in the order of their names
};

} // namespace ztc
