// Holds a form against all elements.
#include "frontends/onnx/MatchWeights.h"
#include "frontends/onnx/WeightViews.h"
#include <cmath>

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

constexpr int64_t kTile = 128;

/// A rectangle of the graph's tensor and one of a checkpoint's that it should equal. Both in the checkpoint's
/// orientation: where the graph holds the transpose, its columns are these rows.
struct Block {
  TensorView mine, theirs;
  int64_t myRow = 0, myColumn = 0, theirRow = 0, theirColumn = 0, rows = 0, columns = 0;
  bool isTransposed = false;
  int64_t matrix = -1; ///< of the graph's stack
};

/// Calls visit(row, column, rows, columns, mine, theirs) for tiles of a block; values in f32, row-major with kTile
/// columns. False as soon as a visit says so.
template <typename Visit> bool forEachTile(const Block &block, Visit visit) {
  std::vector<float> a(kTile * kTile), b(kTile * kTile), turned(kTile * kTile);
  const TensorView &mine = block.mine, &theirs = block.theirs;
  for (int64_t r = 0; r < block.rows; r += kTile)
    for (int64_t c = 0; c < block.columns; c += kTile) {
      int64_t height = std::min(kTile, block.rows - r), width = std::min(kTile, block.columns - c);
      int64_t row = block.myRow + r, column = block.myColumn + c;
      for (int64_t i = 0; i < height; ++i)
        theirs.read((block.theirRow + r + i) * theirs.columns() + block.theirColumn + c, width, b.data() + i * kTile);
      if (!block.isTransposed) {
        for (int64_t i = 0; i < height; ++i)
          mine.read((row + i) * mine.columns() + column, width, a.data() + i * kTile);
      } else {
        for (int64_t j = 0; j < width; ++j)
          mine.read((column + j) * mine.columns() + row, height, turned.data() + j * kTile);
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j)
            a[i * kTile + j] = turned[j * kTile + i];
      }
      if (!visit(row, column, height, width, a.data(), b.data()))
        return false;
    }
  return true;
}

/// A vector is one row, but joined vectors are joined along it: each becomes a column.
TensorView asMatrix(TensorView view) {
  if (view.shape.size() < 2)
    view.shape.resize(2, 1);
  return view;
}

/// The rectangles of a whole tensor; of a transposed stack one per matrix.
void addWhole(const TensorView &mine, const TensorView &theirs, bool isTransposed, std::vector<Block> &blocks) {
  bool isStack = isTransposed && theirs.shape.size() == 3;
  for (int64_t e = 0, n = isStack ? theirs.shape[0] : 1; e < n; ++e) {
    Block block{asMatrix(isStack ? mine.matrix(e) : mine), asMatrix(isStack ? theirs.matrix(e) : theirs)};
    block.rows = block.theirs.rows();
    block.columns = block.theirs.columns();
    block.isTransposed = isTransposed;
    block.matrix = isStack ? e : -1;
    blocks.push_back(std::move(block));
  }
}

/// The scale from all elements: its rounding is that of none of them.
double scaleOf(ArrayRef<Block> blocks) {
  double products = 0, squares = 0;
  for (const Block &block : blocks)
    forEachTile(block, [&](int64_t, int64_t, int64_t height, int64_t width, const float *a, const float *b) {
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
          products += double(a[i * kTile + j]) * b[i * kTile + j];
          squares += double(b[i * kTile + j]) * b[i * kTile + j];
        }
      return true;
    });
  return products / squares;
}

} // namespace

bool agrees(double graph, double expected, double rounding, double scale, double shift) {
  bool isExact = scale == 1 && shift == 0;
  if (isExact && rounding <= 0x1p-24)
    return graph == expected || (std::isnan(graph) && std::isnan(expected));
  // What is folded rounds once more; f16 has subnormal numbers from 6e-8 on.
  double relative = isExact ? rounding : 4 * rounding;
  double floor = rounding == 0x1p-11 ? 0x1p-24 * std::max(1.0, std::fabs(scale)) : 0;
  return std::fabs(graph - expected) <= relative * std::max(std::fabs(expected), std::fabs(shift)) + floor;
}

TensorView beforeReshape(const TensorView &tensor, const WeightForm &form, const TensorView &other) {
  TensorView view = tensor;
  view.shape = other.shape;
  if (form.isTransposed)
    std::swap(view.shape[view.shape.size() - 1], view.shape[view.shape.size() - 2]);
  return view;
}

Likeness likenessOf(const TensorView &graph, const TensorView &checkpoint, bool isTransposed) {
  constexpr int64_t kSamples = 1 << 14;
  MatrixView mine{graph}, theirs{checkpoint, isTransposed};
  int64_t columns = mine.columns(), count = mine.rows() * columns, step = std::max<int64_t>(count / kSamples | 1, 1);
  double products = 0, mineSquares = 0, theirSquares = 0;
  for (int64_t i = 0; i < count; i += step) {
    double a = mine.at(i / columns, i % columns), b = theirs.at(i / columns, i % columns);
    products += a * b;
    mineSquares += a * a;
    theirSquares += b * b;
  }
  if (mineSquares == 0 || theirSquares == 0)
    return {};
  return {products / theirSquares, products * products / (mineSquares * theirSquares)};
}

bool WeightMatcher::prove(const TensorView &tensor, WeightForm &form, Difference &difference) const {
  std::vector<Block> blocks;
  size_t perMatrix = form.matrices ? form.pieces.size() / form.matrices : form.pieces.size();
  int64_t place = 0;
  for (auto [number, piece] : llvm::enumerate(form.pieces)) {
    std::optional<unsigned> index = indexOf(piece.tensor);
    if (!index)
      return false;
    const TensorView &other = checkpoint[*index];
    if (form.isWhole()) {
      addWhole(form.isReshaped ? beforeReshape(tensor, form, other) : tensor, other, form.isTransposed, blocks);
      break;
    }
    if (number % perMatrix == 0)
      place = 0;
    Block block{asMatrix(form.matrices ? tensor.matrix(int64_t(number / perMatrix)) : tensor),
                asMatrix(piece.matrix < 0 ? other : other.matrix(piece.matrix))};
    block.isTransposed = form.isTransposed;
    block.matrix = form.matrices ? int64_t(number / perMatrix) : -1;
    block.rows = block.theirs.rows();
    block.columns = block.theirs.columns();
    int64_t &size = form.axis == 0 ? block.rows : block.columns;
    if (piece.isPart)
      size = piece.size;
    (form.axis == 0 ? block.myRow : block.myColumn) = place;
    (form.axis == 0 ? block.theirRow : block.theirColumn) = piece.begin;
    place += size;
    blocks.push_back(std::move(block));
  }
  if (form.scale != 1)
    form.scale = scaleOf(blocks);
  return llvm::all_of(blocks, [&](const Block &block) {
    double rounding = roundingOf(tensor.type, block.theirs.type);
    return forEachTile(
        block, [&](int64_t row, int64_t column, int64_t height, int64_t width, const float *a, const float *b) {
          for (int64_t i = 0; i < height; ++i)
            for (int64_t j = 0; j < width; ++j) {
              double mineValue = a[i * kTile + j], theirValue = b[i * kTile + j];
              if (agrees(mineValue, form.scale * theirValue + form.shift, rounding, form.scale, form.shift))
                continue;
              difference.tensor = block.theirs.name;
              difference.shape = checkpoint[*indexOf(block.theirs.name)].shape;
              difference.index = block.isTransposed ? Shape{column + j, row + i} : Shape{row + i, column + j};
              if (tensor.shape.size() == 1)
                difference.index = {row + i};
              if (block.matrix >= 0)
                difference.index.insert(difference.index.begin(), block.matrix);
              difference.inGraph = mineValue;
              difference.inCheckpoint = theirValue;
              return false;
            }
          return true;
        });
  });
}

} // namespace ztc::importer
