// Module paths out of the names that TorchScript gives to nodes.
#pragma once
#include "frontends/onnx/Model.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// TorchScript names a node "/layers.0/mlp/mlp.2/MatMul": of each module that was called, its name from the last part
/// on that is no number. So the third part of a called nn.Sequential repeats the sequence's name, and a ModuleDict or
/// ModuleList, which nobody calls, leaves its own out. The names of parameters that the file kept say what stands
/// between.
class ScopePaths {
public:
  explicit ScopePaths(const Model &model);
  /// "layers.0.mlp.2" of the path "layers.0/mlp/mlp.2".
  std::string moduleOf(llvm::StringRef path) const;

private:
  std::string below(llvm::StringRef parent, llvm::StringRef before, llvm::StringRef component) const;
  bool isReachedWithoutCalls(llvm::StringRef module, llvm::StringRef parent) const;
  llvm::StringSet<> modules, called;                     ///< known module paths; components of the names of nodes
  llvm::StringMap<std::vector<std::string>> byComponent; ///< known module paths by what a node would call them
};

} // namespace ztc::importer
