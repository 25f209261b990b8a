#include "frontends/onnx/WeightValues.h"
#include "runtime/Core/FloatTypes.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <cstring>

using llvm::ArrayRef;
using llvm::formatv;

namespace ztc::importer {
namespace {

/// What one piece takes of its tensor: a rectangle of a matrix, or all of it.
struct Rectangle {
  TensorView view;
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

/// `matrices` of rows x columns one after the other, each transposed into `out`.
void readTransposed(const TensorView &view, int64_t rows, int64_t columns, float *out) {
  std::vector<float> line(columns);
  int64_t size = std::max<int64_t>(rows * columns, 1);
  for (int64_t m = 0, matrices = view.count() / size; m < matrices; ++m)
    for (int64_t r = 0; r < rows; ++r) {
      view.read(m * size + r * columns, columns, line.data());
      for (int64_t c = 0; c < columns; ++c)
        out[m * size + c * rows + r] = line[c];
    }
}

StatusOr<Rectangle> rectangleOf(const WeightForm &form, const WeightForm::Piece &piece, FindTensor find) {
  const TensorView *tensor = find(piece.tensor);
  if (!tensor)
    return notFound("'" + piece.tensor + "' is missing");
  Rectangle r{*tensor};
  if (piece.matrix >= 0) {
    if (tensor->shape.size() != 3 || piece.matrix >= tensor->shape[0])
      return failedPrecondition(formatv("'{0}' has no matrix {1}", piece.tensor, piece.matrix).str());
    r.view = tensor->matrix(piece.matrix);
  }
  bool isVector = r.view.shape.size() < 2;
  r.rows = isVector ? r.view.count() : r.view.rows();
  r.columns = isVector ? 1 : r.view.columns();
  if (piece.isPart) {
    int64_t &size = form.axis == 0 ? r.rows : r.columns;
    if (piece.begin > size || piece.size > size - piece.begin)
      return failedPrecondition(
          formatv("'{0}' ends at {1}, {2} to {3} are needed", piece.tensor, size, piece.begin, piece.begin + piece.size)
              .str());
    (form.axis == 0 ? r.row : r.column) = piece.begin;
    size = piece.size;
  }
  return r;
}

/// The pieces of one matrix one after the other along the form's axis, then transposed where the graph has it so.
Status join(const WeightForm &form, ArrayRef<Rectangle> pieces, llvm::MutableArrayRef<float> out) {
  int64_t rows = 0, columns = 0;
  for (const Rectangle &r : pieces) {
    if (&r != &pieces[0] && (form.axis == 0 ? r.columns != columns : r.rows != rows))
      return failedPrecondition("'" + r.view.name + "' has another width than '" + pieces[0].view.name + "'");
    rows = form.axis == 0 ? rows + r.rows : r.rows;
    columns = form.axis == 0 ? r.columns : columns + r.columns;
  }
  if (rows * columns != int64_t(out.size()))
    return failedPrecondition(formatv("'{0}' gives {1} x {2} elements, the graph's tensor has {3}", pieces[0].view.name,
                                      rows, columns, out.size())
                                  .str());
  int64_t row = 0, column = 0;
  std::vector<float> line;
  for (const Rectangle &r : pieces) {
    line.resize(r.columns);
    int64_t width = r.view.shape.size() < 2 ? 1 : r.view.columns();
    for (int64_t i = 0; i < r.rows; ++i) {
      r.view.read((r.row + i) * width + r.column, r.columns, line.data());
      for (int64_t j = 0; j < r.columns; ++j)
        out[form.isTransposed ? (column + j) * rows + row + i : (row + i) * columns + column + j] = line[j];
    }
    (form.axis == 0 ? row : column) += form.axis == 0 ? r.rows : r.columns;
  }
  return Status::ok();
}

} // namespace

StatusOr<std::vector<float>> valuesOf(const WeightForm &form, ArrayRef<int64_t> shape, FindTensor find) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  std::vector<float> out(count);
  std::vector<Rectangle> pieces;
  for (const WeightForm::Piece &piece : form.pieces) {
    ZTC_ASSIGN_OR_RETURN(Rectangle rectangle, rectangleOf(form, piece, find));
    pieces.push_back(std::move(rectangle));
  }
  if (form.isWhole()) { // of any rank
    const Rectangle &r = pieces[0];
    if (r.view.count() != count)
      return failedPrecondition(
          formatv("'{0}' has {1} elements, the graph's tensor {2}", r.view.name, r.view.count(), count).str());
    if (form.isTransposed)
      readTransposed(r.view, r.view.shape.size() < 2 ? 1 : r.view.shape[r.view.shape.size() - 2], r.view.columns(),
                     out.data());
    else
      r.view.read(0, count, out.data());
  } else {
    int64_t matrices = std::max<int64_t>(form.matrices, 1), each = int64_t(pieces.size()) / matrices;
    for (int64_t m = 0; m < matrices; ++m)
      ZTC_RETURN_IF_ERROR(join(form, ArrayRef(pieces).slice(m * each, each),
                               llvm::MutableArrayRef(out).slice(m * (count / matrices), count / matrices)));
  }
  if (form.scale != 1 || form.shift != 0)
    for (float &value : out)
      value = float(form.scale * value + form.shift);
  return out;
}

StatusOr<std::string> encoded(ArrayRef<float> values, ElementType type) {
  unsigned width = elementBytes(type);
  std::string bytes(values.size() * width, '\0');
  for (auto [i, value] : llvm::enumerate(values)) {
    char *to = bytes.data() + i * width;
    bool isFinite = std::isfinite(value);
    if (type == ElementType::F64) {
      double wide = value;
      std::memcpy(to, &wide, width);
    } else if (type == ElementType::F32) {
      std::memcpy(to, &value, width);
    } else {
      uint16_t bits = type == ElementType::F16 ? toF16(value) : toBf16(value);
      std::memcpy(to, &bits, width);
      isFinite = std::isfinite(type == ElementType::F16 ? fromF16(bits) : fromBf16(bits));
    }
    if (!isFinite)
      return failedPrecondition(
          formatv("element {0} is {1}, which is not a finite number in {2}", i, value, elementName(type)).str());
  }
  return bytes;
}

} // namespace ztc::importer
