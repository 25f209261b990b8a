// Functions of one tensor that exporters compute where the tensor is a parameter.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace ztc::importer {

struct FoldedFunction {
  /// One node of the function: of the value before it, or of that and a number.
  struct Step {
    const char *op;
    enum Operands { Value, NumberFirst, NumberSecond, Twice } operands = Value;
    double number = 1;
  };

  const char *words;
  double (*of)(double); ///< of each element; null: of rows
  std::vector<Step> steps;
  const char *calls;   ///< dynamo's names of its last operation, each between spaces
  bool hasOne = false; ///< adds 1 to something: rounds as a number of that size

  /// `scale` times what it gives for a tensor of rows of `width`.
  std::vector<double> apply(std::vector<double> w, int64_t width, double scale = 1) const;
};

/// The last one is the tensor itself, of which an element or a multiple is taken.
llvm::ArrayRef<FoldedFunction> foldedFunctions();

} // namespace ztc::importer
