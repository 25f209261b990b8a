// Evaluates what does not depend on data, on ONNX nodes, with batch and sequence bound; and the shape of everything.
#pragma once
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/Roles.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace ztc::importer {

/// The free sizes of a graph.
struct Binding {
  int64_t batch = 1, sequence = 1;
};

/// Which values depend on data (tokens, parameters) and which initializers are parameters; true for every binding.
struct Liveness {
  llvm::StringSet<> live;
  llvm::StringSet<> parameters;
  llvm::StringMap<InputBinding> roles; ///< of graph inputs
  bool isLive(llvm::StringRef value) const { return live.contains(value); }
};

/// What is known of a value under one binding.
struct KnownValue {
  ElementType type = ElementType::Undefined;
  Shape shape;
  TensorRef data; ///< null: not computed, or it depends on data
};

class Evaluator;

/// One evaluation of a node: reads inputs, defines outputs. A kernel that cannot goes on with fail().
class KernelContext {
public:
  KernelContext(Evaluator &evaluator, const Node &node, bool wantData)
      : evaluator(evaluator), node(node), wantData(wantData) {}

  const KnownValue &in(unsigned index) const;
  bool has(unsigned index) const { return node.hasInput(index); }
  /// What is known of an output so far.
  const KnownValue &out(unsigned index) const;
  /// The elements of an input; an empty tensor and fail() where they are not known.
  const HostTensor &data(unsigned index);
  /// Elements of an integer input, or, where it is absent, of the attribute (older opsets).
  llvm::SmallVector<int64_t> integers(unsigned index, llvm::StringRef attribute);
  /// An input of one element; null and fail() where it has another number of them, or depends on data.
  const HostTensor *scalar(unsigned index);
  /// `axis` counted from the front; fails outside of [-rank, rank).
  int64_t normalAxis(int64_t axis, size_t rank);

  void shape(unsigned output, ElementType type, Shape shape);
  /// Defines type and shape, and where data is wanted gives the tensor to fill, in zeros. Null too where it would be
  /// larger than the budget allows, which fails.
  HostTensor *result(unsigned output, ElementType type, Shape shape);
  void share(unsigned output, TensorRef tensor);
  /// Defines output 0 as the elements of input 0 under another shape; fails where the shape has another number of them.
  void reshaped(Shape shape);
  /// Counts work beyond one operation for each element read and written; fails where the import takes too much.
  bool spend(uint64_t operations);
  bool fail(const llvm::Twine &message);
  bool failed() const { return hasFailed; }

  Evaluator &evaluator;
  const Node &node;
  const bool wantData;

private:
  bool hasFailed = false;
};

/// An op that the importer knows: how to evaluate it (its shape at least) and which inputs' elements the shape needs.
struct Kernel {
  void (*run)(KernelContext &) = nullptr;
  uint32_t shapeInputs = 0; ///< bit i: input i must be known for the result's shape
  bool dataFree = false;    ///< the result depends on its inputs' shapes only (Shape, Size)
  uint32_t typeInputs = 0;  ///< bit i: of input i the type alone matters (CastLike)
};

/// The bit of an input in `Kernel::shapeInputs` and `typeInputs`.
constexpr uint32_t input(unsigned index) {
  return 1u << index;
}

/// The kernel of a node's signature, or null.
const Kernel *kernelOf(llvm::StringRef signature);
void addElementwiseKernels(llvm::StringMap<Kernel> &table);
void addShapeKernels(llvm::StringMap<Kernel> &table);
void addIndexKernels(llvm::StringMap<Kernel> &table);
void addFunctionKernels(llvm::StringMap<Kernel> &table);
void addArrangeKernels(llvm::StringMap<Kernel> &table);
void addSelectionKernels(llvm::StringMap<Kernel> &table);
void addReductionKernels(llvm::StringMap<Kernel> &table);
void addProductKernels(llvm::StringMap<Kernel> &table);
void addModelKernels(llvm::StringMap<Kernel> &table);
void addContribKernels(llvm::StringMap<Kernel> &table);

class Evaluator {
public:
  Evaluator(const Model &model, const Liveness &liveness, Binding binding);

  /// Type and shape, without computing elements that the shape does not need; null after an error.
  const KnownValue *shapeOf(llvm::StringRef value);
  /// The elements; null where they depend on data, or after an error.
  TensorRef valueOf(llvm::StringRef value);
  /// Set by the first failure; names the node.
  const std::string &error() const { return message; }
  const Binding &binding() const { return bound; }
  const Model &model() const { return graph; }
  const Liveness &live() const { return liveness; }

private:
  friend class KernelContext;
  bool demand(llvm::StringRef value, bool wantData);
  bool isReady(llvm::StringRef value, bool wantData) const;
  void bindInputs();
  bool runNode(unsigned index, bool wantData);

  const Model &graph;
  const Liveness &liveness;
  Binding bound;
  llvm::StringMap<KnownValue> values;
  std::string message;
};

/// Follows what depends on tokens and parameters. Finds the roles of inputs where `result` has none yet; fails with a
/// sentence where an input cannot be bound.
bool findLiveness(const Model &model, llvm::function_ref<bool(const Initializer &)> isParameter, Liveness &result,
                  std::string &error);

/// Adds to `live` what depends on values that are in it.
void followLiveness(const Model &model, Liveness &result);

} // namespace ztc::importer
