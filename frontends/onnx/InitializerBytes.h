// The elements of initializers, wherever they are.
#pragma once
#include "frontends/onnx/WeightForm.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>

namespace ztc::importer {

/// Maps the data files of a model, each once.
class InitializerBytes {
public:
  explicit InitializerBytes(const Model &model) : model(model) {}
  /// Empty where the elements are in a file that is not there, or that ends too early.
  llvm::StringRef of(const Initializer &initializer);
  /// The elements with type and shape; `bytes` is empty where they are not there.
  TensorView view(const Initializer &initializer);

private:
  const Model &model;
  std::map<std::string, std::unique_ptr<llvm::MemoryBuffer>> files;
};

} // namespace ztc::importer
