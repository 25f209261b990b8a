// Module paths out of the names that TorchScript gives to nodes.
#pragma once
#include "frontends/onnx/Model.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// TorchScript names a node "/layers.0/mlp/mlp.2/MatMul": one component for each module whose forward ran, which is
/// the end of the module's path, from its last non-numeric part on. A module inside an nn.Sequential therefore repeats
/// the name of the sequence, and a ModuleDict or ModuleList, whose forward never runs, has no component. The parameter
/// names that the file kept tell which containers lie between.
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
