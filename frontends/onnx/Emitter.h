// ONNX nodes that work on data become graph ops, one to a few each; everything else is evaluated.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"
#include "frontends/onnx/Build.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Masks.h"
#include "frontends/onnx/Names.h"
#include <map>

namespace ztc::importer {

/// An initializer that a parameter of @forward stands for, and who reads it as this parameter.
struct ParameterPlace {
  const Initializer *initializer = nullptr;
  bool transposed = false;
  std::vector<std::pair<std::string, unsigned>> readers; ///< a node's first output, and the number of the input
};

/// A parameter of @forward.
struct Parameter {
  std::string name;
  std::vector<std::string> tied;
  const Initializer *initializer = nullptr;
  bool transposed = false;
  mlir::BlockArgument argument;
  std::string stored;                       ///< its name in the checkpoint, where that was held against the graph
  double shift = 0;                         ///< the initializer holds w + shift, and no checkpoint is given
  std::vector<std::string> transformations; ///< what the graph's initializer has folded into it, for the report
  std::vector<ParameterPlace> places;       ///< more than one where the graph holds copies of a tied tensor
};

class Emitter {
public:
  Emitter(mlir::ModuleOp module, const Model &model, const Names &names, const Liveness &liveness, Binding binding,
          bool isSymbolic, ImportReport &report);

  /// For one node whose inputs `known` has evaluated: nothing is data, and no constant is read as a mask.
  Emitter(mlir::ModuleOp module, const Model &model, const Names &names, const Evaluator &known, ImportReport &report);

  /// Emits @forward, which gives logits. Diagnostics name the node.
  llvm::LogicalResult run();
  /// Emits @forward of a graph whose inputs are data: it gives every output.
  llvm::LogicalResult runGraph();
  /// Emits @forward without arguments, which gives the node's outputs that have names.
  llvm::LogicalResult runNode(const Node &single);

  mlir::func::FuncOp function() { return forward; }
  std::vector<Parameter> &parameters() { return params; }
  /// What an argument of @forward is, also while it is emitted.
  std::optional<graph::Role> roleOf(unsigned index) const;

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
  /// What `define` was told of an output of the current node.
  mlir::Value defined(unsigned outputIndex) const { return values.lookup(node->outputs[outputIndex]); }
  bool hasOutput(unsigned index) const { return index < node->outputs.size() && !node->outputs[index].empty(); }
  graph::Expr expr(mlir::Value value) { return graph::Expr(builder, loc, value); }
  int64_t opset() const { return model.opset; }
  bool isSequence(int64_t size) const { return size == binding.sequence; }
  /// x with the node's `axis` as the last dimension (up to opset 12: that and all after it as one), and the way back
  /// to the node's output.
  mlir::Value rowsOfAxis(mlir::Value x, llvm::SmallVectorImpl<int64_t> &inverse);
  mlir::Value fromRowsOfAxis(mlir::Value rows, llvm::ArrayRef<int64_t> inverse);
  /// For a parameter operand that is a matrix read by a product: the argument, and whether the product transposes it.
  mlir::Value matrixOperand(unsigned input, bool &transposed);
  llvm::LogicalResult fail(const llvm::Twine &message);
  /// A constant at the front of the function, one for equal elements.
  mlir::Value table(llvm::ArrayRef<float> elements, llvm::ArrayRef<int64_t> shape);
  /// What `make` gave the first time that it was asked about this tensor: every layer asks about the same ones.
  mlir::Value onceOf(const TensorRef &tensor, llvm::function_ref<mlir::Value()> make);
  /// The formula of a mask as a value: (1, ..., S, S) broadcast to `shape`, whose last two dimensions are the sequence.
  mlir::Value maskValue(const Mask &mask, ElementType type, llvm::ArrayRef<int64_t> shape);

private:
  mlir::Value failValue(const llvm::Twine &message);
  mlir::Value parameter(unsigned input, bool &transposed);
  /// The parameter's index in `params`; nothing after a diagnostic.
  std::optional<unsigned> parameterIndexOf(unsigned input, const Initializer &initializer, const ParameterName &found);
  mlir::Value constantValue(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);
  llvm::LogicalResult checkOps(llvm::ArrayRef<unsigned> needed);
  std::vector<unsigned> neededNodes(llvm::SmallVector<llvm::StringRef> outputs);
  void keepWide(mlir::Operation *first);
  llvm::LogicalResult emitNodes(llvm::ArrayRef<llvm::StringRef> outputs);
  void giveBack(llvm::ArrayRef<mlir::Value> results);
  void widenParameter(unsigned index);

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
  std::map<TensorRef, mlir::Value> made; ///< of onceOf
  std::vector<Parameter> params;
  std::map<std::pair<const Initializer *, std::string>, unsigned> parameterIndex;
  llvm::StringMap<unsigned> parameterOfName;                                ///< the first
  std::map<std::pair<const Initializer *, bool>, unsigned> parameterOfData; ///< the first, by transposed
  /// Of @forward's arguments: its type and their attributes are set at the end (compiler/Support/ArgumentAttributes.h).
  llvm::SmallVector<mlir::DictionaryAttr> argumentAttributes;
  Binding binding;
  bool readsMasks = true;
};

using EmitFunction = llvm::LogicalResult (*)(Emitter &);
/// The emission of an op, or null where ztc knows none.
EmitFunction emissionOf(llvm::StringRef signature);
void addElementwiseEmission(llvm::StringMap<EmitFunction> &table);
void addShapeEmission(llvm::StringMap<EmitFunction> &table);
void addActivationEmission(llvm::StringMap<EmitFunction> &table);
void addReductionEmission(llvm::StringMap<EmitFunction> &table);
void addProductEmission(llvm::StringMap<EmitFunction> &table);
void addNormalizationEmission(llvm::StringMap<EmitFunction> &table);
void addIndexEmission(llvm::StringMap<EmitFunction> &table);
void addScatterEmission(llvm::StringMap<EmitFunction> &table);
void addSelectionEmission(llvm::StringMap<EmitFunction> &table);
void addAttentionEmission(llvm::StringMap<EmitFunction> &table);
void addLossEmission(llvm::StringMap<EmitFunction> &table);
void addRecurrenceEmission(llvm::StringMap<EmitFunction> &table);
/// After the default domain's: some are the same.
void addContribEmission(llvm::StringMap<EmitFunction> &table);
void addContribAttentionEmission(llvm::StringMap<EmitFunction> &table);
void addExpertEmission(llvm::StringMap<EmitFunction> &table);

} // namespace ztc::importer
