// Holding derivatives against finite differences, in the f64 interpreter.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/Autodiff/Gradient.h"
#include "llvm/ADT/ScopeExit.h"
#include <gtest/gtest.h>
#include <random>

namespace ztc::test {

using Tensors = llvm::SmallVector<Tensor>;

/// A context with the dialects of the graph, whose diagnostics become part of the test's output.
struct GraphContext {
  mlir::MLIRContext context;
  GraphContext() { context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect>(); }
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context));
    EXPECT_TRUE(module) << text.str();
    return module;
  }
};

/// Normally distributed floats, indices below `indexLimit` for integers.
inline Tensor randomTensor(mlir::RankedTensorType type, std::mt19937_64 &generator, int64_t indexLimit = 2) {
  Tensor tensor(type);
  std::normal_distribution<double> normal;
  for (double &value : tensor.reals)
    value = normal(generator);
  for (int64_t &value : tensor.integers)
    value = static_cast<int64_t>(generator() % static_cast<uint64_t>(indexLimit));
  return tensor;
}

inline double dot(const Tensor &a, const Tensor &b) {
  double sum = 0;
  for (size_t i = 0; i < a.reals.size(); ++i)
    sum += a.reals[i] * b.reals[i];
  return sum;
}

inline double maxAbs(const Tensor &a) {
  double max = 0;
  for (double value : a.reals)
    max = std::max(max, std::abs(value));
  return max;
}

/// |a - b| / |b| (L2).
inline double relativeError(const Tensor &a, const Tensor &b) {
  double difference = 0;
  for (size_t i = 0; i < a.reals.size(); ++i)
    difference += (a.reals[i] - b.reals[i]) * (a.reals[i] - b.reals[i]);
  double norm = std::sqrt(dot(b, b));
  return norm > 0 ? std::sqrt(difference) / norm : std::sqrt(difference);
}

/// Appends one cotangent argument per float result of the function and lets it return, after its results, the gradients
/// of its float arguments.
inline llvm::LogicalResult differentiateInPlace(mlir::func::FuncOp function) {
  mlir::Block &body = function.getBody().front();
  llvm::SmallVector<mlir::Value> wanted;
  for (mlir::BlockArgument argument : body.getArguments())
    if (llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(argument.getType())))
      wanted.push_back(argument);
  llvm::SmallVector<Seed> seeds;
  for (mlir::Value value : body.getTerminator()->getOperands())
    if (llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(value.getType())))
      seeds.push_back({value, body.addArgument(value.getType(), function.getLoc())});
  auto gradients = emitGradients(body, seeds, wanted);
  if (failed(gradients))
    return llvm::failure();
  llvm::SmallVector<mlir::Value> results(body.getTerminator()->getOperands());
  for (auto [argument, gradient] : llvm::zip(wanted, *gradients)) {
    EXPECT_TRUE(gradient) << "no gradient of argument " << llvm::cast<mlir::BlockArgument>(argument).getArgNumber();
    if (!gradient)
      return llvm::failure();
    results.push_back(gradient);
  }
  body.getTerminator()->setOperands(results);
  function.setFunctionType(mlir::FunctionType::get(
      function.getContext(), mlir::ValueRange(body.getArguments()).getTypes(), mlir::ValueRange(results).getTypes()));
  return mlir::verify(function);
}

/// Replaces every op that has a decomposition by it, once.
inline llvm::LogicalResult decomposeInPlace(mlir::func::FuncOp function) {
  for (mlir::Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator())) {
    auto macro = llvm::dyn_cast<DecomposableOpInterface>(op);
    if (!macro)
      continue;
    mlir::OpBuilder builder(&op);
    auto values = macro.decompose(builder);
    if (failed(values))
      return llvm::failure();
    op.replaceAllUsesWith(*values);
    op.erase();
  }
  return mlir::verify(function);
}

/// Expects `gradient` of argument `index` to give, along `direction`, the central difference of the function's first
/// results, each times its weight.
inline void expectDirectional(mlir::func::FuncOp function, const Tensors &arguments, size_t index,
                              const Tensor &direction, llvm::ArrayRef<Tensor> weights, const Tensor &gradient) {
  constexpr double kStep = 1e-5;
  double sums[2] = {0, 0};
  for (int side : {0, 1}) {
    Tensors moved(arguments);
    for (auto [x, d] : llvm::zip_equal(moved[index].reals, direction.reals))
      x += (side ? kStep : -kStep) * d;
    auto there = interpret(function, moved);
    ASSERT_TRUE(succeeded(there));
    for (auto [i, weight] : llvm::enumerate(weights))
      sums[side] += dot((*there)[i], weight);
  }
  const double numeric = (sums[1] - sums[0]) / (2 * kStep);
  EXPECT_NEAR(dot(gradient, direction), numeric, 1e-6 * std::max(1.0, std::abs(numeric))) << "of operand " << index;
}

} // namespace ztc::test
