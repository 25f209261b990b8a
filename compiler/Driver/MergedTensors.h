// A checkpoint with an adapter in it, for `ztc export --merge`.
#pragma once
#include "frontends/onnx/WeightForm.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/ADT/StringSet.h"
#include <list>

namespace ztc::driver {

class MergedTensors {
public:
  /// The model's tensors, of the checkpoint `base`, as the PEFT folder `adapter` changes them: W + scale * B A and the
  /// like in f32, rounded once to the type that W has. An error names what of the adapter fits nothing.
  static StatusOr<MergedTensors> open(const std::string &adapter, const std::string &base);

  /// Views of what this object holds, or of the files.
  const std::vector<importer::TensorView> &views() const { return tensors; }
  bool changes(llvm::StringRef name) const { return changed.contains(name); }
  /// Whether trained rows (trainable_token_indices) are all that changes the tensor: a head that is the same tensor has
  /// them too.
  bool changesRows(llvm::StringRef name) const { return ofRows.contains(name); }

private:
  std::vector<std::unique_ptr<SafetensorsCollection>> files;
  std::vector<importer::TensorView> tensors;
  std::list<std::vector<char>> made; ///< bytes of changed tensors
  llvm::StringSet<> changed, ofRows;
};

} // namespace ztc::driver
