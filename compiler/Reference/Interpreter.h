// Executes graph functions slowly and readably: the truth that kernels, rewrites and gradients are held against.
#pragma once
#include "compiler/Reference/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace ztc {

class Interpreter;
class Rendezvous;

/// The values of an op's operands, and where its rule puts the values of its results (already zero-filled for static
/// result types).
using Operands = llvm::ArrayRef<const Tensor *>;
using Results = llvm::MutableArrayRef<Tensor>;

/// How each op is executed, by op name. A rule computes in double; the interpreter rounds what it stores.
class RuleTable {
public:
  using Rule = std::function<llvm::LogicalResult(mlir::Operation *, Operands, Results, Interpreter &)>;

  /// `compute(op, operands, results)`, or `compute(op, operands, results, interpreter)`, may return nothing or a
  /// LogicalResult (after a located diagnostic).
  template <typename OpTy, typename Compute> void add(Compute compute) {
    rules[OpTy::getOperationName()] = [compute](mlir::Operation *op, Operands operands, Results results,
                                                Interpreter &interpreter) {
      auto call = [&] {
        if constexpr (std::is_invocable_v<Compute, OpTy, Operands, Results, Interpreter &>)
          return compute(llvm::cast<OpTy>(op), operands, results, interpreter);
        else
          return compute(llvm::cast<OpTy>(op), operands, results);
      };
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return llvm::success();
      } else {
        return llvm::LogicalResult(call());
      }
    };
  }
  /// A rule that needs the interpreter (regions) or serves several ops.
  void addNamed(llvm::StringRef opName, Rule rule) { rules[opName] = std::move(rule); }
  /// The rule of graph.optimizer_step by this optimizer. Those of plugins have none: what they decompose into is run.
  void addOptimizer(llvm::StringRef optimizer, Rule rule) { optimizers[optimizer] = std::move(rule); }
  /// Null where there is none.
  const Rule *lookup(mlir::Operation &op) const;

private:
  llvm::StringMap<Rule> rules, optimizers;
};

/// One function per op family; a plugin's dialect brings its own through InterpreterOptions::moreRules.
void addElementwiseRules(RuleTable &table);
void addShapeRules(RuleTable &table);
void addMatmulRules(RuleTable &table);
void addNormRules(RuleTable &table);
void addAttentionRules(RuleTable &table);
void addEmbeddingRules(RuleTable &table);
void addLossRules(RuleTable &table);
void addOptimizerRules(RuleTable &table);
void addFusionRules(RuleTable &table);
void addQuantizeRules(RuleTable &table);
void addRecurrenceRules(RuleTable &table);
void addExpertRules(RuleTable &table);
void addDistRules(RuleTable &table);

enum class Precision {
  F64, ///< nothing is rounded, whatever the types say: the mathematics of the graph
  F32, ///< every result is rounded to its type after its op; sums inside one op still run in double, and an op that
       ///< rounds to a narrow type inside does so
};

struct InterpreterOptions {
  Precision precision = Precision::F64;
  Rendezvous *ranks = nullptr; ///< where this rank meets the others; null: it is alone
  unsigned rank = 0;
  bool lastMicrostep = true; ///< else `reduce_scatter {only_last}` sends nothing
  /// Rules of further dialects, added after those of graph and dist.
  llvm::SmallVector<void (*)(RuleTable &)> moreRules;
};

/// Which elements of a bucket a flat value holds, padding included.
struct FlatRange {
  int64_t start = 0, length = 0;
};

class Interpreter {
public:
  explicit Interpreter(const InterpreterOptions &options);
  const InterpreterOptions &getOptions() const { return options; }
  bool hasRule(mlir::Operation &op) const { return table.lookup(op) != nullptr; }
  /// What a value of this type holds on this rank: a whole bucket, a shard of it, or any 1-D tensor of static length.
  /// Fails, with a diagnostic at `op`, where the type says no length.
  llvm::FailureOr<FlatRange> flatRange(mlir::Operation *op, mlir::Type type) const;
  /// `value` as an op holds it that rounds to the narrow type `type` inside (RationaleNumerics.md); wider types and
  /// Precision::F64 leave it.
  double roundInside(double value, mlir::Type type) const;
  /// Runs a block whose arguments have these values; returns the operands of its terminator. An op without a rule is a
  /// located error.
  llvm::FailureOr<llvm::SmallVector<Tensor>> run(mlir::Block &block, llvm::ArrayRef<Tensor> arguments);

private:
  llvm::LogicalResult execute(mlir::Operation &op, llvm::DenseMap<mlir::Value, Tensor> &values);

  InterpreterOptions options;
  RuleTable table;
};

/// Runs a function on its arguments (checked against its types) and returns its results.
llvm::FailureOr<llvm::SmallVector<Tensor>> interpret(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
                                                     const InterpreterOptions &options = {});

} // namespace ztc
