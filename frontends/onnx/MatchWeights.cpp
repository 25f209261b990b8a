#include "frontends/onnx/MatchWeights.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/WeightViews.h"
#include <cmath>

using llvm::ArrayRef;
using llvm::StringRef;

namespace ztc::importer {
namespace {

constexpr int64_t kSamples = 48;

/// Positions that are spread over `count` elements without a period.
int64_t samplePosition(int64_t sample, int64_t count) {
  return int64_t((uint64_t(sample) * 0x9e3779b97f4a7c15u >> 11) % uint64_t(count));
}

/// Orientation in the graph and axis of the checkpoint along which pieces may be joined or taken, likeliest first.
constexpr std::pair<bool, int64_t> kArrangements[] = {{false, 0}, {true, 0}, {false, 1}, {true, 1}};

/// A row of `view` from `column` on equals the first columns of `other`'s row, on a sample.
bool rowsAgree(const MatrixView &a, int64_t rowA, const MatrixView &b, int64_t rowB, double rounding) {
  int64_t columns = a.columns();
  for (int64_t s = 0; s < 12; ++s) {
    int64_t column = s < 4 ? s % columns : samplePosition(s, columns);
    if (!agrees(a.at(rowA, column), b.at(rowB, column), rounding, 1, 0))
      return false;
  }
  return true;
}

/// What a sample of two tensors' elements allows to be said of them.
struct Sample {
  bool isEqual = true, isShifted = true;
  double scale = 0; ///< 0: neither is a multiple of the other
};

Sample take(const MatrixView &mine, const MatrixView &theirs, double rounding) {
  Sample sample;
  int64_t count = mine.rows() * mine.columns(), columns = mine.columns();
  bool isScaled = true;
  double largest = 0;
  llvm::SmallVector<std::pair<double, double>, kSamples> pairs;
  for (int64_t s = 0, n = std::min(count, kSamples); s < n && (sample.isEqual || sample.isShifted || isScaled); ++s) {
    int64_t at = count <= kSamples ? s : samplePosition(s, count);
    double a = mine.at(at / columns, at % columns), b = theirs.at(at / columns, at % columns);
    pairs.push_back({a, b});
    sample.isEqual = sample.isEqual && agrees(a, b, rounding, 1, 0);
    sample.isShifted = sample.isShifted && agrees(a, b + 1, rounding, 1, 1);
    if (std::fabs(b) > largest) {
      largest = std::fabs(b);
      sample.scale = a / b;
    }
    // A scale that elements so far do not share is found at once; the tolerance allows for its own rounding.
    isScaled = isScaled && std::fabs(a - sample.scale * b) <= 16 * rounding * std::fabs(a) + 1e-7 * largest;
  }
  for (auto [a, b] : pairs)
    isScaled = isScaled && std::isfinite(sample.scale) && agrees(a, sample.scale * b, 2 * rounding, sample.scale, 0);
  if (!isScaled)
    sample.scale = 0;
  return sample;
}

bool isTransposable(const TensorView &tensor) {
  return tensor.shape.size() == 2;
}

bool isTransposeOf(const TensorView &a, const TensorView &b) {
  return isTransposable(a) && isTransposable(b) && a.shape[0] == b.shape[1] && a.shape[1] == b.shape[0];
}

} // namespace

WeightMatcher::WeightMatcher(ArrayRef<TensorView> checkpoint, WeightRules rules)
    : checkpoint(checkpoint), rules(rules) {
  for (auto [i, tensor] : llvm::enumerate(checkpoint))
    byName[tensor.name] = i;
}

std::optional<unsigned> WeightMatcher::indexOf(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? std::nullopt : std::optional<unsigned>(found->second);
}

bool WeightMatcher::fits(const WeightForm &form) const {
  return (form.axis == 0 || form.axis == 1) && form.matrices >= 0 &&
         (!form.matrices || form.pieces.size() % form.matrices == 0) &&
         llvm::all_of(form.pieces, [&](const WeightForm::Piece &piece) {
           std::optional<unsigned> index = indexOf(piece.tensor);
           if (!index)
             return false;
           ArrayRef<int64_t> shape = checkpoint[*index].shape;
           if (piece.matrix >= 0 && (shape.size() != 3 || piece.matrix >= shape[0]))
             return false;
           shape = shape.drop_front(piece.matrix >= 0);
           return !piece.isPart || (size_t(form.axis) < shape.size() && piece.begin >= 0 && piece.size >= 0 &&
                                    piece.size <= shape[form.axis] - piece.begin);
         });
}

/// One tensor of the checkpoint as a whole: itself, its transpose, 1 + w, c * w.
std::optional<WeightForm> WeightMatcher::findWhole(const TensorView &tensor, const TensorView &other,
                                                   bool familyShift) const {
  double rounding = roundingOf(tensor.type, other.type);
  if (!rules.cast && tensor.type != other.type)
    return std::nullopt;
  for (bool isTransposed : {false, true}) {
    if (isTransposed ? !rules.transpose || !isTransposeOf(tensor, other) : tensor.shape != other.shape)
      continue;
    MatrixView mine{tensor}, theirs{other, isTransposed};
    Sample sample = take(mine, theirs, rounding);
    WeightForm form = WeightForm::of(other.name, isTransposed);
    if (sample.isEqual)
      return form;
    // Of a constant both a shift and a scale could be said: only the family tells.
    bool isConstant = other.isConstant();
    if (rules.shift && sample.isShifted && tensor.shape.size() == 1 && (!isConstant || familyShift)) {
      form.shift = 1;
      return form;
    }
    if (rules.scale && sample.scale != 0 && !isConstant) {
      form.scale = sample.scale;
      return form;
    }
  }
  return std::nullopt;
}

/// The elements of one tensor in other dimensions: a vector of one number per head as (1, heads, 1, 1), a projection as
/// (inputs, heads, width), matrices of experts that are transposed each.
std::optional<WeightForm> WeightMatcher::findReshaped(const TensorView &tensor, const TensorView &other) const {
  if (tensor.count() != other.count() || (!rules.cast && tensor.type != other.type))
    return std::nullopt;
  double rounding = roundingOf(tensor.type, other.type);
  for (bool isTransposed : {false, true}) {
    size_t rank = other.shape.size();
    if (isTransposed && (!rules.transpose || rank < 2 || rank > 3))
      continue;
    WeightForm form = WeightForm::of(other.name, isTransposed);
    TensorView mine = beforeReshape(tensor, form, other);
    form.isReshaped = mine.shape != tensor.shape;
    bool isStack = rank == 3 && isTransposed, isEqual = true;
    for (int64_t e = 0, n = isStack ? other.shape[0] : 1; isEqual && e < n; ++e) {
      TensorView myMatrix = isStack ? mine.matrix(e) : mine, theirMatrix = isStack ? other.matrix(e) : other;
      isEqual = take(MatrixView{myMatrix}, MatrixView{theirMatrix, isTransposed}, rounding).isEqual;
    }
    if (isEqual)
      return form;
  }
  return std::nullopt;
}

/// Several tensors one after the other: q|k|v, gate|up; each starts where the one before it ends.
std::optional<WeightForm> WeightMatcher::findPieces(const TensorView &tensor, bool isTransposed, int64_t axis) const {
  if (tensor.shape.size() > 2 || (tensor.shape.size() == 1 && (isTransposed || axis)))
    return std::nullopt;
  MatrixView mine{tensor, isTransposed != (axis == 1)};
  bool isVector = tensor.shape.size() == 1;
  WeightForm form;
  form.isTransposed = isTransposed;
  form.axis = axis;
  int64_t extent = isVector ? tensor.count() : mine.rows();
  for (int64_t row = 0; row < extent;) {
    const TensorView *next = nullptr;
    for (const TensorView &other : checkpoint) {
      if (other.shape.size() != tensor.shape.size() || other.isConstant() || (!rules.cast && other.type != tensor.type))
        continue;
      double rounding = roundingOf(tensor.type, other.type);
      if (isVector) {
        int64_t size = other.count();
        bool isHere = size <= extent - row && size < extent;
        for (int64_t i = 0; isHere && i < std::min<int64_t>(size, 16); ++i)
          isHere = agrees(tensor.at(row + i), other.at(i), rounding, 1, 0);
        if (isHere) {
          next = &other;
          break;
        }
        continue;
      }
      MatrixView theirs{other, axis == 1};
      if (theirs.columns() == mine.columns() && theirs.rows() <= extent - row && theirs.rows() < extent &&
          rowsAgree(mine, row, theirs, 0, rounding) &&
          rowsAgree(mine, row + theirs.rows() - 1, theirs, theirs.rows() - 1, rounding)) {
        next = &other;
        break;
      }
    }
    if (!next)
      return std::nullopt;
    int64_t size = next->shape[axis];
    form.pieces.push_back({next->name, 0, size});
    row += size;
  }
  return form.pieces.size() > 1 ? std::optional<WeightForm>(form) : std::nullopt;
}

/// The first row (along `axis`: column) of `other` from which on it holds `tensor`; -1 where it does not.
int64_t WeightMatcher::placeIn(const TensorView &other, const TensorView &tensor, bool isTransposed,
                               int64_t axis) const {
  double rounding = roundingOf(tensor.type, other.type);
  bool isVector = tensor.shape.size() == 1;
  MatrixView mine{tensor, isTransposed != (axis == 1)}, theirs{other, axis == 1};
  int64_t extent = isVector ? tensor.count() : mine.rows(), all = other.shape[axis];
  if (all < extent || (!isVector && theirs.columns() != mine.columns()))
    return -1;
  for (int64_t row = 0; row + extent <= all; ++row) {
    bool isHere;
    if (isVector) {
      isHere = true;
      for (int64_t i = 0; isHere && i < std::min<int64_t>(extent, 32); ++i)
        isHere = agrees(tensor.at(i), other.at(row + i), rounding, 1, 0);
    } else {
      isHere = agrees(mine.at(0, 0), theirs.at(row, 0), rounding, 1, 0) && rowsAgree(mine, 0, theirs, row, rounding) &&
               rowsAgree(mine, extent - 1, theirs, row + extent - 1, rounding);
    }
    if (isHere)
      return row;
  }
  return -1;
}

/// Some rows or columns of a larger tensor, or a matrix of a stack: the graph's exporter split what the checkpoint
/// holds in one piece.
std::optional<WeightForm> WeightMatcher::findPart(const TensorView &tensor, bool isTransposed, int64_t axis) const {
  if (tensor.shape.size() > 2 || (tensor.shape.size() == 1 && (isTransposed || axis)))
    return std::nullopt;
  for (const TensorView &other : checkpoint) {
    size_t rank = other.shape.size();
    bool isStack = rank == 3 && tensor.shape.size() == 2;
    if ((rank != tensor.shape.size() && !isStack) || other.isConstant() || (!rules.cast && other.type != tensor.type))
      continue;
    for (int64_t e = 0, n = isStack ? other.shape[0] : 1; e < n; ++e) {
      TensorView matrix = isStack ? other.matrix(e) : other;
      if (matrix.count() < tensor.count() || (!isStack && matrix.count() == tensor.count()))
        continue;
      int64_t row = placeIn(matrix, tensor, isTransposed, axis);
      if (row < 0)
        continue;
      WeightForm form;
      form.isTransposed = isTransposed;
      form.axis = axis;
      form.pieces.push_back({other.name, row, tensor.shape[isTransposed && tensor.shape.size() == 2 ? 1 - axis : axis],
                             matrix.count() > tensor.count(), isStack ? e : -1});
      return form;
    }
  }
  return std::nullopt;
}

/// A stack of matrices, one per expert: each as the checkpoint has it, or joined of several.
std::optional<WeightForm> WeightMatcher::findStack(const TensorView &tensor) const {
  if (tensor.shape.size() != 3 || !tensor.count())
    return std::nullopt;
  WeightForm form;
  form.matrices = tensor.shape[0];
  for (int64_t e = 0; e < tensor.shape[0]; ++e) {
    TensorView matrix = tensor.matrix(e);
    if (matrix.isConstant())
      return std::nullopt;
    std::optional<WeightForm> found;
    for (const TensorView &other : checkpoint) {
      if (other.shape.size() == 2 && !other.isConstant())
        found = findWhole(matrix, other, false);
      if (found && found->isPlain())
        break;
      found.reset();
    }
    for (auto [isTransposed, axis] : kArrangements)
      if (!found && rules.join && !(isTransposed && !rules.transpose))
        found = findPieces(matrix, isTransposed, axis);
    // All are arranged as the first one is.
    if (!found || (e && (found->isTransposed != form.isTransposed || found->axis != form.axis ||
                         found->pieces.size() * e != form.pieces.size())))
      return std::nullopt;
    form.isTransposed = found->isTransposed;
    form.axis = found->axis;
    form.pieces.insert(form.pieces.end(), found->pieces.begin(), found->pieces.end());
  }
  return form;
}

std::optional<WeightForm> WeightMatcher::findOne(const TensorView &tensor, ArrayRef<unsigned> named,
                                                 bool familyShift) const {
  for (unsigned index : named)
    if (auto form = findWhole(tensor, checkpoint[index], familyShift))
      return form;
  if (!rules.byValue || tensor.count() < 2 || tensor.isConstant())
    return std::nullopt;
  // What is the tensor itself goes before what is a multiple of it.
  std::optional<WeightForm> folded;
  for (const TensorView &other : checkpoint)
    if (!other.isConstant())
      if (auto form = findWhole(tensor, other, familyShift)) {
        if (form->isPlain())
          return form;
        if (!folded && tensor.count() >= 8) // few elements are multiples of one another by chance
          folded = form;
      }
  return folded;
}

std::optional<WeightForm> WeightMatcher::findSeveral(const TensorView &tensor) const {
  if (!rules.byValue || tensor.count() < 2 || tensor.isConstant())
    return std::nullopt;
  if (rules.reshape)
    for (const TensorView &other : checkpoint)
      if (!other.isConstant())
        if (auto form = findReshaped(tensor, other))
          return form;
  for (auto [isTransposed, axis] : kArrangements) {
    if (isTransposed && !(rules.transpose && isTransposable(tensor)))
      continue;
    if (rules.join)
      if (auto form = findPieces(tensor, isTransposed, axis))
        return form;
    if (rules.range)
      if (auto form = findPart(tensor, isTransposed, axis))
        return form;
  }
  return rules.stack ? findStack(tensor) : std::nullopt;
}

} // namespace ztc::importer
