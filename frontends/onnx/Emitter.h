// ONNX nodes that work on data become graph ops, one to a few each; everything else is evaluated.
#pragma once
#include "frontends/onnx/Build.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Masks.h"
#include "frontends/onnx/Names.h"

namespace ztc::importer {

/// A parameter of @forward.
struct Parameter {
  std::string name;
  std::vector<std::string> tied;
  const Initializer *initializer = nullptr;
  bool transposed = false;
  mlir::BlockArgument argument;
};

class Emitter {
public:
  Emitter(mlir::ModuleOp module, const Model &model, const Names &names, const Liveness &liveness, Binding binding,
          bool isSymbolic, ImportReport &report);

  /// Emits @forward. Diagnostics name the node.
  llvm::LogicalResult run();

  mlir::func::FuncOp function() { return forward; }
  std::vector<Parameter> &parameters() { return params; }

  // What the emission of one op uses.
  mlir::OpBuilder builder;
  mlir::Location loc;         ///< of the current node
  const Node *node = nullptr; ///< the current one

  bool isLive(unsigned input) const { return node->hasInput(input) && liveness.isLive(node->inputs[input]); }
  /// An operand as a graph value of its own shape; null after a diagnostic.
  mlir::Value operand(unsigned input);
  /// An operand broadcast to `shape`.
  mlir::Value operand(unsigned input, llvm::ArrayRef<int64_t> shape);
  /// The elements of an operand that does not depend on data; null after a diagnostic.
  TensorRef constant(unsigned input);
  llvm::SmallVector<int64_t> integers(unsigned input, llvm::StringRef attribute);
  /// Type and shape of the current node's outputs.
  const KnownValue &output(unsigned index);
  llvm::ArrayRef<int64_t> outputShape(unsigned index = 0) { return output(index).shape; }
  const KnownValue &input(unsigned index);
  mlir::Type elementType(ElementType type);
  void define(unsigned outputIndex, mlir::Value value);
  /// For a parameter operand that is a matrix read by a product: the argument, and whether the product transposes it.
  mlir::Value matrixOperand(unsigned input, bool &transposed);
  llvm::LogicalResult fail(const llvm::Twine &message);
  /// A constant at the front of the function, one for equal elements.
  mlir::Value table(llvm::ArrayRef<float> elements, llvm::ArrayRef<int64_t> shape);
  /// The formula of a mask as a value: (1, ..., S, S) broadcast to `shape`, whose last two dimensions are the sequence.
  mlir::Value maskValue(const Mask &mask, ElementType type, llvm::ArrayRef<int64_t> shape);

private:
  mlir::Value failValue(const llvm::Twine &message);
  mlir::Value parameter(unsigned input, bool &transposed);
  mlir::Value constantValue(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);
  llvm::LogicalResult checkOps(llvm::ArrayRef<unsigned> needed);
  std::vector<unsigned> neededNodes();

  const Model &model;
  const Names &names;
  const Liveness &liveness;
  Evaluator evaluator;
  MaskClassifier masks;
  ImportReport &report;
  mlir::func::FuncOp forward;
  llvm::StringMap<mlir::Value> values;
  llvm::StringMap<mlir::Value> constants;
  llvm::DenseMap<mlir::Attribute, mlir::Value> tables;
  std::vector<Parameter> params;
  std::map<std::pair<const Initializer *, std::string>, unsigned> parameterIndex;
  Binding binding;
};

using EmitFunction = llvm::LogicalResult (*)(Emitter &);
/// The emission of an op, or null where ztc knows none.
EmitFunction emissionOf(llvm::StringRef signature);
void addElementwiseEmission(llvm::StringMap<EmitFunction> &table);
void addShapeEmission(llvm::StringMap<EmitFunction> &table);
void addModelEmission(llvm::StringMap<EmitFunction> &table);
/// After the default domain's: some are the same.
void addContribEmission(llvm::StringMap<EmitFunction> &table);
void addContribAttentionEmission(llvm::StringMap<EmitFunction> &table);

} // namespace ztc::importer
