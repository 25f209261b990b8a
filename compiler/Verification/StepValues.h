// What a step computes, in the reference interpreter: the same values, by name, whatever form passes have given it.
#pragma once
#include "compiler/Reference/Interpreter.h"
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ztc::verification {

/// Values by what they are: "loss", "gradient model.norm.weight", "logits". Buckets are taken apart, shards are put
/// together, sums over ranks are taken, so that all forms of a step speak of the same values.
using NamedValues = std::map<std::string, Tensor>;

/// Values for the arguments of a step's functions. Each is made of its role and name alone, and is exact in bf16: it is
/// the same for every form of a step, in whatever type and place that keeps it.
class StepInputs {
public:
  /// Reads the vocabulary, and which rows of tables get no gradient, from a module at any phase up to `schedule`.
  explicit StepInputs(mlir::ModuleOp module);

  /// The value of an argument; `batch` tells apart the tokens and targets of ranks.
  Tensor value(llvm::StringRef role, llvm::StringRef name, mlir::RankedTensorType type, unsigned batch = 0) const;

  /// From here on `value` gives what this gives, where it gives anything; it gets the arguments of `value`.
  using Given = std::function<std::optional<Tensor>(llvm::StringRef role, llvm::StringRef name,
                                                    mlir::RankedTensorType type, unsigned batch)>;
  void give(Given values) { given = std::move(values); }

  /// Moves a parameter: from here on `value` gives it (and its master) plus `step` times its own random direction; all
  /// parameters for an empty name.
  void moveAlong(llvm::StringRef parameter, double step) { moved = parameter.str(), movedBy = step; }
  /// The direction in which `moveAlong` moves a parameter.
  static Tensor direction(llvm::StringRef parameter, mlir::RankedTensorType type);

  /// States are numbers that blocks of 8-bit codes can hold, wherever they are stored: the same before and after the
  /// pass that stores them so.
  bool statesInBlocks = false;
  /// Gradients are clipped. Not where each bucket is clipped by its own norm: parameters are not in buckets at first.
  bool clips = true;

private:
  int64_t vocabulary = 2, positions = 1, tokens = 1;
  std::vector<int64_t> avoided; ///< tokens that no batch holds
  Given given;
  std::string moved;
  double movedBy = 0;
};

/// Interprets @`function` of a module and names its results. On `world` ranks each has a batch of its own; a module
/// that knows no ranks runs batch after batch and adds up. Fails, with diagnostics, where the interpreter has no rule.
/// The context must allow threads where the module has collectives and `world` is above 1.
llvm::FailureOr<NamedValues> evaluateStep(mlir::ModuleOp module, llvm::StringRef function, const StepInputs &inputs,
                                          Precision precision = Precision::F64, unsigned world = 1);

/// |a - b| / |b| over all elements (L2), |a| where b is zero; infinite where shapes differ, integers differ, or only
/// one of the two is finite.
double relativeError(const Tensor &value, const Tensor &expected);

} // namespace ztc::verification
