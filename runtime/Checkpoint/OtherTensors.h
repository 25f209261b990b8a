// What a model's folder holds beside the tensors that the plan trains: a vision tower, a projector, buffers.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// One file before it is written: tensors with their bytes as they are stored.
struct CopiedFile {
  std::string name; ///< set by who knows how many files there are
  SafetensorsLayout layout;
  std::vector<SafetensorsCollection::Found> tensors; ///< by offset of the layout
  uint64_t tensorBytes = 0;                          ///< without the header

  Status write(const File &to) const;
};

/// The tensors of a checkpoint that are not parameters of the plan, mapped. A matrix that repeats a parameter's values
/// (a head that is stored although it is tied) goes with that parameter and is left out.
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
  std::optional<SafetensorsCollection> checkpoint_;
  std::vector<SafetensorsCollection::Found> tensors_;
};

} // namespace ztc
