// What the graph itself and config.json say about a parameter, where values cannot: which tensor of a checkpoint it is,
// and whether an exporter folded something into it.
#pragma once
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/WeightForm.h"

namespace ztc::importer {

/// What is certain without looking at values.
struct WeightFact {
  enum class Kind {
    Untouched, ///< the checkpoint's tensor, or its transpose
    OnePlus,   ///< 1 + w
    Likely,    ///< a matrix whose name is lost, in the place of a linear layer's: untouched unless its values say else
    Unknown,   ///< something was folded into it; `reason` says how that shows
  } kind = Kind::Untouched;
  std::string reason;
};

class WeightFacts {
public:
  /// `family`: model_type of config.json, of its text model where it has one; or "".
  WeightFacts(const Model &model, const Names &names, llvm::StringRef family);

  WeightFact of(const Parameter &parameter) const;
  /// The family's norms multiply by 1 + w.
  bool hasShiftedNorms() const { return shiftedNorms; }

private:
  const Model &model;
  const Names &names;
  std::string family;
  bool shiftedNorms;
  llvm::StringMap<llvm::SmallVector<std::pair<unsigned, unsigned>, 2>> readers; ///< initializer -> (node, operand)
};

/// Without a checkpoint: trains w where the graph holds 1 + w of it, which is what a checkpoint of the family has under
/// that name. What the exporter itself calls the result of arithmetic otherwise is an error, unless `freeze`, a regular
/// expression, names it; what has no name of its own is noted.
llvm::LogicalResult undoFolded(Emitter &emitter, const WeightFacts &facts, llvm::StringRef path, llvm::StringRef freeze,
                               ImportReport &report);

/// Families whose RMS norms (of Nemotron: LayerNorms) multiply by 1 + w, as transformers 4 and 5 write them.
bool hasShiftedNorms(llvm::StringRef family);

} // namespace ztc::importer
