// Which transformation of a checkpoint's tensors a tensor of the graph is: values decide, names are the first guess.
#pragma once
#include "frontends/onnx/WeightForm.h"
#include "frontends/onnx/WeightRules.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc::importer {

/// The first element that a form does not explain.
struct Difference {
  std::string tensor; ///< of the checkpoint; "" where no tensor came into question
  Shape shape;        ///< its
  Shape index;        ///< of the graph's tensor
  double inGraph = 0, inCheckpoint = 0;
};

/// How alike two tensors of as many elements are, on a sample: the factor between them (least squares), and how much of
/// `graph` it explains (1: all, 0: nothing).
struct Likeness {
  double factor = 0, share = 0;
};
Likeness likenessOf(const TensorView &graph, const TensorView &checkpoint, bool isTransposed);

class WeightMatcher {
public:
  /// `checkpoint` outlives the matcher.
  WeightMatcher(llvm::ArrayRef<TensorView> checkpoint, WeightRules rules);

  /// The one tensor that explains `tensor`, proven on a sample of its elements; `named`: the tensors that its name
  /// stands for, which are tried first. `familyShift`: this family's norms hold 1 + w, so a constant may be that too.
  std::optional<WeightForm> findOne(const TensorView &tensor, llvm::ArrayRef<unsigned> named, bool familyShift) const;
  /// Several tensors joined, a part of one, a stack of experts. Slower: reads a column of much of the checkpoint.
  std::optional<WeightForm> findSeveral(const TensorView &tensor) const;
  /// Proves a form on all elements. Sets the scale from all of them first. On failure `difference` has the first.
  bool prove(const TensorView &tensor, WeightForm &form, Difference &difference) const;
  /// The tensors of a form are there and large enough for it.
  bool fits(const WeightForm &form) const;
  /// Index of a checkpoint tensor, or none.
  std::optional<unsigned> indexOf(llvm::StringRef name) const;
  const TensorView &operator[](unsigned index) const { return checkpoint[index]; }
  size_t size() const { return checkpoint.size(); }

private:
  std::optional<WeightForm> findWhole(const TensorView &tensor, const TensorView &other, bool familyShift) const;
  std::optional<WeightForm> findReshaped(const TensorView &tensor, const TensorView &other) const;
  std::optional<WeightForm> findPieces(const TensorView &tensor, bool isTransposed, int64_t axis) const;
  int64_t placeIn(const TensorView &other, const TensorView &tensor, bool isTransposed, int64_t axis) const;
  std::optional<WeightForm> findPart(const TensorView &tensor, bool isTransposed, int64_t axis) const;
  std::optional<WeightForm> findStack(const TensorView &tensor) const;

  llvm::ArrayRef<TensorView> checkpoint;
  WeightRules rules;
  llvm::StringMap<unsigned> byName;
};

} // namespace ztc::importer
