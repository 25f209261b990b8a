// Which positions a mask lets see each other: a claimed formula, held against the subgraph's own values at small sizes.
#pragma once
#include "frontends/onnx/Evaluator.h"

namespace ztc::importer {

/// Row i sees column j where: always (neither), j <= i (causal), j > i - window (window > 0, with causal).
struct Mask {
  bool causal = false;
  int64_t window = 0;
  double visible = 0, hidden = 0; ///< its two values; booleans are 1 and 0
  bool sees(int64_t i, int64_t j) const { return (!causal || j <= i) && (window == 0 || j > i - window); }
  /// "causal", "sliding window 4096", "no mask".
  std::string describe() const;
};

/// Recognises masks under the binding of a whole import.
class MaskClassifier {
public:
  /// `isSymbolic`: the graph's batch and sequence are free; else it is evaluated at its own size only.
  MaskClassifier(const Model &model, const Liveness &liveness, Binding binding, bool isSymbolic);

  /// The value's last two dimensions both are the sequence: it must not be evaluated at the real size.
  bool isMask(llvm::StringRef value);
  /// The formula, or none with a message that shows the pattern.
  std::optional<Mask> classify(llvm::StringRef value, std::string &error);

private:
  std::vector<Binding> bindingsFor(llvm::StringRef value) const;

  const Model &model;
  const Liveness &liveness;
  Binding binding;
  bool isSymbolic;
  Evaluator small, larger;
};

} // namespace ztc::importer
