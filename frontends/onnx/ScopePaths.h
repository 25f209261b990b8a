// Module paths out of the names that TorchScript gives to nodes.
#pragma once
#include "frontends/onnx/Model.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// TorchScript names a node "/layers.0/mlp/mlp.2/MatMul": one component for each module whose forward ran, which is
/// the end of the module's path, from its last non-numeric part on. A module inside an nn.Sequential therefore repeats
/// the name of the sequence, and a ModuleDict or ModuleList, whose forward never runs, has no component. The parameter
/// names that the file kept tell which containers lie between. A path that was taken already gets a number, "/mlp_1":
/// by the second call of the module, and by another module of that name in another ModuleDict. What their nodes read
/// tells which.
class ScopePaths {
public:
  explicit ScopePaths(const Model &model);
  /// "layers.0.mlp.2" of the path "layers.0/mlp/mlp.2".
  std::string moduleOf(llvm::StringRef path) const;

private:
  /// What the nodes of one path, the node's name without its last component, read.
  struct Scope {
    llvm::StringSet<> modules;                ///< whose tensors they read, where the path may be those modules'
    std::vector<const Initializer *> unnamed; ///< matrices that lost their names
  };
  struct Place {
    llvm::StringRef path, parent, before, component; ///< `parent`: the module that the path so far stands for
  };
  void readNames(const Model &model);
  void readScopes(const Model &model);
  void noteReads(llvm::ArrayRef<llvm::StringRef> components, llvm::StringRef module);
  void findRepeats(const Model &model);
  std::string below(const Place &place) const;
  std::string shown(const Place &place) const;
  bool isOfAnother(llvm::StringRef module, llvm::StringRef path) const;
  bool isReachedWithoutCalls(llvm::StringRef module, llvm::StringRef parent) const;
  llvm::StringSet<> modules, called;                     ///< known module paths; components of the names of nodes
  llvm::StringMap<std::vector<std::string>> byComponent; ///< known module paths by what a node would call them
  llvm::StringMap<Scope> scopes;                         ///< by path
  llvm::StringMap<std::string> repeated;                 ///< the component that a numbered path's last one repeats
  llvm::StringMap<llvm::StringSet<>> pathsOf;            ///< of a module with tensors of its own: who reads these
};

} // namespace ztc::importer
