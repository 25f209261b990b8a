// Tensors of a checkpoint that initializers of a graph are, where neither name nor use says so.
#pragma once
#include "frontends/onnx/Names.h"
#include "frontends/onnx/WeightForm.h"
#include "runtime/Format/Safetensors.h"

namespace ztc::importer {

/// The safetensors name of a float type as the type; Undefined for all others.
ElementType floatTypeNamed(llvm::StringRef name);
/// The float tensors of a checkpoint. Their bytes are the files'.
std::vector<TensorView> floatTensorsOf(const SafetensorsCollection &files);

class StoredTensors {
public:
  /// `weights`: folder, safetensors file or index; empty, or what cannot be opened, has no tensors.
  StoredTensors(const Model &model, const Names &names, const std::string &weights);

  /// The tensor that has an initializer's name, or those that have all its elements in any dimensions. Buffers (of
  /// dynamo's signature) and masks of zeros and ones are not meant.
  std::vector<std::string> namesOf(const Initializer &initializer) const;

private:
  bool hasValuesOf(const TensorView &tensor, const TensorView &wanted) const;

  const Model &model;
  const Names &names;
  std::optional<SafetensorsCollection> files;
  std::vector<TensorView> tensors;
};

} // namespace ztc::importer
