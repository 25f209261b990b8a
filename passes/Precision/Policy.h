// What a policy says about one function: its narrow type and the layers that it leaves f32.
#pragma once
#include "compiler/Support/Formats.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Regex.h"
#include <vector>

namespace ztc {

/// Module attribute, strings: the patterns of layers that stay f32, where there are any.
inline constexpr llvm::StringLiteral kKeptFp32 = "graph.kept_fp32";

/// The narrow type of a precision, that of what is stored: bf16 for fp8; null for fp32.
mlir::Type narrowTypeOf(StoragePrecision precision, mlir::MLIRContext *context);

/// One number a row, or one in all, as a reduction gives it: not worth rounding. An element of a row that was taken
/// apart, as a head's pairs are to be rotated, is an activation like the row.
bool isStatistic(mlir::Value value);

/// Floats of a function that are computed from integers (tokens, positions) and constants alone. No parameter has a
/// part in them, so that no policy is about them, and a narrow type may not hold them: a position beyond 256, a mask's
/// lowest number.
llvm::DenseSet<mlir::Value> dataOnlyValues(mlir::Block &block);

/// Vectors that are computed from parameters and constants alone, as 1 + w is. They are as small as statistics and
/// multiply every row: none is worth rounding.
llvm::DenseSet<mlir::Value> parameterVectors(mlir::func::FuncOp function);

/// Layers that stay f32, by regular expressions over checkpoint names and module paths.
class PrecisionOverrides {
public:
  /// Fails, with a diagnostic at `loc`, on what is not a regular expression.
  static llvm::FailureOr<PrecisionOverrides> parse(mlir::Location loc, llvm::ArrayRef<std::string> patterns);

  /// Those of a module that phase `precision` has seen.
  static PrecisionOverrides of(mlir::ModuleOp module);

  /// Whether the argument is a parameter that the model itself wants in f32 (graph.wide), or whose checkpoint name, or
  /// a tied one, matches.
  bool hasParameter(mlir::func::FuncOp function, unsigned index);
  /// Whether the policy leaves the argument f32, a parameter: it matches, or it is a vector that is not trained, as a
  /// router's correction of choices is. Such a vector has no master copy, so that rounding it would change what an
  /// export writes; it is as small as a statistic. A frozen matrix is stored narrow.
  bool keepsParameter(mlir::func::FuncOp function, unsigned index);
  /// Whether the module path that the op has as its location matches.
  bool hasLocation(mlir::Location loc);
  /// Whether the policy leaves this op f32: its layer matches, or a parameter that it reads as it is or broadcast.
  bool hasOp(mlir::Operation *op);
  /// Fails, with a diagnostic at `loc`, where a pattern has matched nothing so far.
  llvm::LogicalResult expectAllUsed(mlir::Location loc) const;

private:
  bool matches(llvm::StringRef name);

  struct Pattern {
    std::string text;
    llvm::Regex expression;
    bool used = false;
  };
  std::vector<Pattern> patterns;
};

} // namespace ztc
