#include "frontends/onnx/MatchWeights.h"
#include "frontends/onnx/HostTensor.h"
#include <cmath>

using llvm::ArrayRef;
using llvm::StringRef;

namespace ztc::importer {
namespace {

constexpr int64_t kSamples = 48;
constexpr int64_t kTile = 128;

/// Element (row, column) of a tensor as a matrix, seen transposed where asked.
struct MatrixView {
  const TensorView &tensor;
  bool isTransposed = false;
  int64_t rows() const { return isTransposed ? tensor.columns() : tensor.rows(); }
  int64_t columns() const { return isTransposed ? tensor.rows() : tensor.columns(); }
  double at(int64_t row, int64_t column) const {
    return isTransposed ? tensor.at(column * tensor.columns() + row) : tensor.at(row * tensor.columns() + column);
  }
};

/// Positions that are spread over `count` elements without a period.
int64_t samplePosition(int64_t sample, int64_t count) {
  return int64_t((uint64_t(sample) * 0x9e3779b97f4a7c15u >> 11) % uint64_t(count));
}

bool agrees(double graph, double expected, double rounding, double scale, double shift) {
  bool isExact = scale == 1 && shift == 0;
  if (isExact && rounding <= 0x1p-24)
    return graph == expected || (std::isnan(graph) && std::isnan(expected));
  // What is folded rounds once more; f16 has subnormal numbers from 6e-8 on.
  double relative = isExact ? rounding : 4 * rounding;
  double floor = rounding == 0x1p-11 ? 0x1p-24 * std::max(1.0, std::fabs(scale)) : 0;
  return std::fabs(graph - expected) <= relative * std::max(std::fabs(expected), std::fabs(shift)) + floor;
}

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
  double scale = 0; ///< 0: they are no multiples of one another
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

/// Several tensors one after the other: q|k|v, gate|up; each starts where the one before it ends.
std::optional<WeightForm> WeightMatcher::findPieces(const TensorView &tensor, bool isTransposed) const {
  MatrixView mine{tensor, isTransposed};
  if (tensor.shape.size() > 2 || (tensor.shape.size() == 1 && isTransposed))
    return std::nullopt;
  bool isVector = tensor.shape.size() == 1;
  WeightForm form;
  form.isTransposed = isTransposed;
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
      MatrixView theirs{other};
      if (theirs.columns() == mine.columns() && theirs.rows() <= extent - row && theirs.rows() < extent &&
          rowsAgree(mine, row, theirs, 0, rounding) &&
          rowsAgree(mine, row + theirs.rows() - 1, theirs, theirs.rows() - 1, rounding)) {
        next = &other;
        break;
      }
    }
    if (!next)
      return std::nullopt;
    int64_t size = next->shape[0];
    form.pieces.push_back({next->name, 0, size, false});
    row += size;
  }
  return form.pieces.size() > 1 ? std::optional<WeightForm>(form) : std::nullopt;
}

/// Some rows of a larger tensor: the graph's exporter split a projection that the checkpoint holds in one piece.
std::optional<WeightForm> WeightMatcher::findPart(const TensorView &tensor, bool isTransposed) const {
  if (tensor.shape.size() > 2 || (tensor.shape.size() == 1 && isTransposed))
    return std::nullopt;
  bool isVector = tensor.shape.size() == 1;
  MatrixView mine{tensor, isTransposed};
  int64_t extent = isVector ? tensor.count() : mine.rows();
  for (const TensorView &other : checkpoint) {
    if (other.shape.size() != tensor.shape.size() || other.shape[0] <= extent || other.isConstant() ||
        (!rules.cast && other.type != tensor.type))
      continue;
    double rounding = roundingOf(tensor.type, other.type);
    MatrixView theirs{other};
    if (!isVector && theirs.columns() != mine.columns())
      continue;
    for (int64_t row = 0; row + extent <= other.shape[0]; ++row) {
      bool isHere;
      if (isVector) {
        isHere = true;
        for (int64_t i = 0; isHere && i < std::min<int64_t>(extent, 32); ++i)
          isHere = agrees(tensor.at(i), other.at(row + i), rounding, 1, 0);
      } else {
        isHere = agrees(mine.at(0, 0), theirs.at(row, 0), rounding, 1, 0) &&
                 rowsAgree(mine, 0, theirs, row, rounding) &&
                 rowsAgree(mine, extent - 1, theirs, row + extent - 1, rounding);
      }
      if (!isHere)
        continue;
      WeightForm form;
      form.isTransposed = isTransposed;
      form.pieces.push_back({other.name, row, extent, true});
      return form;
    }
  }
  return std::nullopt;
}

/// (E, rows, columns) of E matrices, one per expert: each as the checkpoint has it.
std::optional<WeightForm> WeightMatcher::findStack(const TensorView &tensor) const {
  if (tensor.shape.size() != 3)
    return std::nullopt;
  WeightForm form;
  form.isStacked = true;
  for (int64_t e = 0; e < tensor.shape[0]; ++e) {
    TensorView slab{"", {}, tensor.type, {tensor.shape[1], tensor.shape[2]}};
    int64_t bytes = slab.count() * elementBytes(tensor.type);
    slab.bytes = tensor.bytes.substr(e * bytes, bytes);
    std::optional<WeightForm> found;
    for (const TensorView &other : checkpoint) {
      if (other.shape.size() == 2 && !other.isConstant())
        found = findWhole(slab, other, false);
      if (found && found->isPlain())
        break;
      found.reset();
    }
    if (!found || (e && found->isTransposed != form.isTransposed))
      return std::nullopt;
    form.isTransposed = found->isTransposed;
    form.pieces.push_back({found->pieces[0].tensor, 0, 0, false});
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
  for (bool isTransposed : {false, true}) {
    if (isTransposed && !(rules.transpose && isTransposable(tensor)))
      continue;
    if (rules.join)
      if (auto form = findPieces(tensor, isTransposed))
        return form;
    if (rules.range)
      if (auto form = findPart(tensor, isTransposed))
        return form;
  }
  return rules.stack ? findStack(tensor) : std::nullopt;
}

namespace {

/// Calls visit(row, column, rows, columns, mine, theirs) for tiles of two views of one size; values in f32, row-major
/// with kTile columns. False as soon as a visit says so.
template <typename Visit>
bool forEachTile(const TensorView &mine, int64_t myRow, bool isTransposed, const TensorView &theirs, int64_t theirRow,
                 int64_t rows, int64_t columns, Visit visit) {
  // Rows are those of the checkpoint. In the graph they are columns where it holds the transpose.
  std::vector<float> a(kTile * kTile), b(kTile * kTile), turned(kTile * kTile);
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile) {
      int64_t height = std::min(kTile, rows - r), width = std::min(kTile, columns - c);
      for (int64_t i = 0; i < height; ++i)
        theirs.read((theirRow + r + i) * theirs.columns() + c, width, b.data() + i * kTile);
      if (!isTransposed) {
        for (int64_t i = 0; i < height; ++i)
          mine.read((myRow + r + i) * mine.columns() + c, width, a.data() + i * kTile);
      } else {
        for (int64_t j = 0; j < width; ++j)
          mine.read((c + j) * mine.columns() + myRow + r, height, turned.data() + j * kTile);
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j)
            a[i * kTile + j] = turned[j * kTile + i];
      }
      if (!visit(r, c, height, width, a.data(), b.data()))
        return false;
    }
  return true;
}

} // namespace

bool WeightMatcher::prove(const TensorView &tensor, WeightForm &form, Difference &difference) const {
  int64_t row = 0;
  for (auto [number, piece] : llvm::enumerate(form.pieces)) {
    std::optional<unsigned> index = indexOf(piece.tensor);
    if (!index)
      return false;
    const TensorView &other = checkpoint[*index];
    // A vector is one row, but joined vectors are joined along it: each becomes a column.
    TensorView mine = tensor, theirs = other;
    auto flatten = [](TensorView &view) {
      if (view.shape.size() == 1)
        view.shape.push_back(1);
    };
    flatten(mine);
    flatten(theirs);
    bool isTransposed = form.isTransposed;
    int64_t rows = piece.isPart ? piece.size : theirs.rows(), myRow = row;
    if (form.isStacked) {
      int64_t bytes = other.count() * elementBytes(tensor.type);
      mine.shape = {tensor.shape[1], tensor.shape[2]};
      mine.bytes = tensor.bytes.substr(number * bytes, bytes);
      myRow = 0;
    }
    double rounding = roundingOf(tensor.type, other.type);
    if (form.scale != 1) { // the scale from all elements: its rounding is that of none of them
      double products = 0, squares = 0;
      forEachTile(mine, myRow, isTransposed, theirs, piece.begin, rows, theirs.columns(),
                  [&](int64_t, int64_t, int64_t height, int64_t width, const float *a, const float *b) {
                    for (int64_t i = 0; i < height; ++i)
                      for (int64_t j = 0; j < width; ++j) {
                        products += double(a[i * kTile + j]) * b[i * kTile + j];
                        squares += double(b[i * kTile + j]) * b[i * kTile + j];
                      }
                    return true;
                  });
      form.scale = products / squares;
    }
    bool holds =
        forEachTile(mine, myRow, isTransposed, theirs, piece.begin, rows, theirs.columns(),
                    [&](int64_t r, int64_t c, int64_t height, int64_t width, const float *a, const float *b) {
                      for (int64_t i = 0; i < height; ++i)
                        for (int64_t j = 0; j < width; ++j) {
                          double mineValue = a[i * kTile + j], theirValue = b[i * kTile + j];
                          if (agrees(mineValue, form.scale * theirValue + form.shift, rounding, form.scale, form.shift))
                            continue;
                          difference.tensor = other.name;
                          difference.shape = other.shape;
                          difference.index = isTransposed ? Shape{c + j, myRow + r + i} : Shape{myRow + r + i, c + j};
                          if (tensor.shape.size() == 1)
                            difference.index = {myRow + r + i};
                          difference.inGraph = mineValue;
                          difference.inCheckpoint = theirValue;
                          return false;
                        }
                      return true;
                    });
    if (!holds)
      return false;
    row += rows;
  }
  return true;
}

} // namespace ztc::importer
