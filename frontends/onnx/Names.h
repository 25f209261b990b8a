// Checkpoint names and module paths, recovered from what exporters leave behind.
#pragma once
#include "frontends/onnx/Model.h"
#include "frontends/onnx/ScopePaths.h"

namespace ztc::importer {

/// Which checkpoint tensor a node reads.
struct ParameterName {
  std::string name;
  bool transposed = false; ///< the ONNX file holds the transpose of the checkpoint's matrix
  bool isApart = false;    ///< others that read the same initializer have other tensors of the checkpoint
};

class Names {
public:
  /// `checkpoint`: names of the tensors that weights will be read from, where they are known; they decide between
  /// prefixes.
  explicit Names(const Model &model, llvm::ArrayRef<std::string> checkpoint = {});

  /// The module path of a node, "model.layers.3.self_attn.q_proj"; "" where the exporter left none.
  std::string scopeOf(const Node &node) const;
  /// The parameter that `consumer` reads as input `index`, an initializer. One initializer may stand for several
  /// parameters (exporters merge equal tensors).
  ParameterName parameterOf(const Node &consumer, unsigned index, const Initializer &initializer) const;
  /// An initializer's own name as a checkpoint name; "" where the exporter replaced it (val_12, onnx::MatMul_703).
  std::string checkpointName(llvm::StringRef initializer) const;
  /// Dynamo's signature calls this initializer a parameter, or it has no signature: unknown.
  enum class Kind { Parameter, Buffer, Unknown };
  Kind kindOf(const Initializer &initializer) const;
  /// The same of a tensor of the checkpoint.
  Kind kindOfTensor(llvm::StringRef tensor) const;
  /// Whether dynamo's signature lists a parameter of this name.
  bool isDeclared(llvm::StringRef parameter) const { return isTarget.count(parameter) != 0; }
  /// Whether a tensor of the checkpoint belongs to the module of this scope itself, not to one below it. A scope may
  /// have a wrapper's prefix.
  bool isOfModule(llvm::StringRef tensor, llvm::StringRef scope) const;
  /// An initializer is this tensor of the checkpoint, whoever reads it.
  void tell(llvm::StringRef initializer, llvm::StringRef tensor) { told[initializer] = tensor.str(); }
  /// An initializer is equal to these tensors of the checkpoint: for each node that reads it, to the one of the node's
  /// own module, or to any of them where one module reads it. False, and nothing is told, where several do, and one of
  /// these has no such tensor, or two.
  bool tellOneOf(const Initializer &initializer, llvm::ArrayRef<std::string> tensors);

private:
  void choosePrefix(llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> checkpoint);
  /// A name or module path without the wrapper's part.
  std::string stripped(llvm::StringRef name) const;
  std::vector<std::string> targetsIn(const Node &node) const;
  void findRepeats();
  const Model &model;
  ScopePaths scopes;
  bool isTorchScript; ///< written by the older exporter, which keeps the name of each tensor that it leaves alone
  llvm::StringMap<bool> isTarget; ///< parameter names of dynamo's signature
  llvm::StringMap<std::string> told;
  llvm::StringMap<llvm::StringMap<std::string>> toldByScope; ///< by initializer, then by the scope of who reads it
  llvm::StringMap<std::string> firstOf; ///< names in the first place, of parameters of a module that has several
  std::string wrapper, added; ///< prefixes with their dot: the one of a wrapper module, and what checkpoints have
};

} // namespace ztc::importer
