#include "frontends/onnx/FoldedPairs.h"
#include "frontends/onnx/NodeChain.h"
#include "frontends/onnx/StoredTensors.h"
#include "frontends/onnx/WeightViews.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// What looking for products may cost, in multiplications.
constexpr double kMostWork = 4e9;
/// Elements that are held against a formula before all of them are.
constexpr int64_t kSamples = 24;

/// A tensor of the checkpoint, by the graph's name for it.
struct Stored {
  std::string name;
  TensorView view;
};

/// A matrix that a constant is compared with, as it stands or turned.
struct Oriented {
  const Stored *tensor;
  bool isTransposed;
  MatrixView matrix() const { return {tensor->view, isTransposed}; }
};

/// scale * left @ right, and `base` added to it.
struct Product {
  Oriented left, right;
  std::optional<Oriented> base;
  double scale = 1;
};

/// g * v / |v|, the norm over all of v, or over each of its rows.
struct WeightNorm {
  const Stored *direction, *length;
  bool isTransposed; ///< the constant is the transpose of it
  bool isOverAll;
};

/// The last part of a module's path, without what stands for one of several parts of its parameter.
StringRef ownerOf(StringRef name) {
  for (int i = 0; i < 3 && name.contains('.'); ++i)
    name = name.rsplit('.').first;
  return name;
}

class PairRestorer {
public:
  PairRestorer(Model &model, const Names &names, const SafetensorsCollection &files, std::vector<std::string> &notes)
      : model(model), names(names), notes(notes) {
    for (const TensorView &tensor : floatTensorsOf(files)) {
      std::string name = model.graphName(tensor.name);
      all.push_back({name, tensor});
      if (!model.initializer(name) && names.kindOfTensor(tensor.name) != Names::Kind::Buffer)
        unread.push_back({name, tensor});
    }
  }

  void run() {
    if (unread.size() < 2)
      return;
    std::vector<const Initializer *> constants;
    for (const Initializer &constant : model.initializers)
      if (mayBeComputed(constant))
        constants.push_back(&constant);
    for (const Initializer *constant : constants) {
      const TensorView view = viewOf(model, *constant);
      if (view.bytes.empty() || view.isConstant() || isStored(view))
        continue;
      if (std::optional<WeightNorm> norm = findNorm(view))
        replace(*constant, *norm);
      else if (std::optional<Product> product = findProduct(view))
        replace(*constant, *product);
    }
  }

private:
  bool mayBeComputed(const Initializer &constant) const {
    if (!isFloat(constant.type) || constant.isRestored || constant.shape.size() < 2 || constant.shape.size() > 3 ||
        constant.count() < 4 || !names.checkpointName(constant.name).empty())
      return false;
    return llvm::any_of(model.nodes, [&](const Node &node) { return llvm::is_contained(node.inputs, constant.name); });
  }

  static int64_t sampleOf(int64_t i, int64_t count) { return i * (count - 1) / (kSamples - 1); }

  /// A tensor of the checkpoint as it is, or turned: others find it.
  bool isStored(const TensorView &view) const {
    return llvm::any_of(all, [&](const Stored &stored) {
      if (stored.view.count() != view.count())
        return false;
      for (bool isTransposed : {false, true}) {
        MatrixView other{stored.view, isTransposed};
        if (isTransposed && (stored.view.shape.size() != 2 || view.shape.size() != 2))
          continue;
        bool isEqual = true;
        for (int64_t i = 0; i < kSamples && isEqual; ++i) {
          int64_t at = sampleOf(i, view.count()), columns = isTransposed ? other.columns() : view.columns();
          isEqual = agrees(view.at(at), isTransposed ? other.at(at / columns, at % columns) : stored.view.at(at),
                           roundingOf(view.type, stored.view.type), 1, 0);
        }
        if (isEqual)
          return true;
      }
      return false;
    });
  }

  // g * v / |v|

  /// The rows of a tensor of any rank: of a convolution, those of each channel.
  static int64_t widthOf(const TensorView &v) { return v.shape[0] ? v.count() / v.shape[0] : 0; }

  std::optional<WeightNorm> findNorm(const TensorView &view) const {
    for (const Stored &direction : unread)
      for (bool isTransposed : {false, true}) {
        Shape shape(view.shape);
        if (isTransposed)
          std::swap(shape[0], shape[1]);
        if (direction.view.shape != shape || (isTransposed && shape.size() != 2))
          continue;
        for (const Stored &length : unread)
          if (&length != &direction && (length.view.count() == shape[0] || length.view.count() == 1))
            if (WeightNorm norm{&direction, &length, isTransposed, length.view.count() == 1 && shape[0] != 1};
                isNorm(view, norm))
              return norm;
      }
    return std::nullopt;
  }

  static double at(const TensorView &view, bool isTransposed, int64_t row, int64_t column, int64_t width) {
    return isTransposed ? view.at(column * view.columns() + row) : view.at(row * width + column);
  }

  static bool isNorm(const TensorView &view, const WeightNorm &norm) {
    const TensorView &v = norm.direction->view, &g = norm.length->view;
    const int64_t rows = v.shape[0], width = widthOf(v);
    // The first row's direction, before anything is added up.
    const double one = at(view, norm.isTransposed, 0, 0, width),
                 other = at(view, norm.isTransposed, 0, width - 1, width);
    const double rounding = 4 * std::max(roundingOf(view.type, v.type), roundingOf(view.type, g.type)) + 4e-6;
    if (std::fabs(one * v.at(width - 1) - other * v.at(0)) > 4 * rounding * (std::fabs(one * v.at(width - 1)) + 1e-12))
      return false;
    auto squares = [&](int64_t row) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i)
        sum += v.at(row * width + i) * v.at(row * width + i);
      return sum;
    };
    double total = 0;
    for (int64_t row = 0; norm.isOverAll && row < rows; ++row)
      total += squares(row);
    for (int64_t row = 0; row < rows; ++row) {
      const double size = std::sqrt(norm.isOverAll ? total : squares(row));
      const double factor = g.at(norm.isOverAll ? 0 : row) / size;
      for (int64_t i = 0; i < width; ++i) {
        double wanted = factor * v.at(row * width + i);
        if (!(std::fabs(at(view, norm.isTransposed, row, i, width) - wanted) <= rounding * std::fabs(wanted) + 1e-12))
          return false;
      }
    }
    return true;
  }

  std::string restored(const Initializer &constant, const Stored &stored) {
    model.addRestored(stored.name, constant.type, stored.view.shape)
        .filePlaces.push_back({FilePlace::Kind::Joint, constant.nameInFile(), 0, {}, nullptr});
    return stored.name;
  }

  void replace(const Initializer &constant, const WeightNorm &norm) {
    const Shape shape = norm.direction->view.shape;
    const std::string name = constant.name;
    std::string v = restored(constant, *norm.direction), g = restored(constant, *norm.length);
    notes.push_back("'" + name + "' in the graph is " + g + " * " + v + " / |" + v +
                    "|, by value: both are trained, as this function of them");
    NodeChain chain(model, name);
    Shape axes;
    for (int64_t i = norm.isOverAll ? 0 : 1; i < int64_t(shape.size()); ++i)
      axes.push_back(i);
    std::string sum = chain.add("ReduceSum", {chain.add("Mul", {v, v}), chain.integers(axes)});
    chain.set("keepdims", 1);
    Shape column(shape.size(), 1);
    column[0] = norm.isOverAll ? 1 : shape[0];
    std::string factor = chain.add("Div", {chain.reshape(g, column), chain.add("Sqrt", {sum})});
    std::string matrix = chain.add("Mul", {v, factor});
    if (norm.isTransposed)
      matrix = chain.transpose(matrix);
    chain.finish(name);
  }

  // scale * A @ B

  /// Tensors that have this many rows, or columns and are turned, and are narrower than `limit` in the other direction.
  std::vector<Oriented> sides(int64_t size, int64_t limit, bool isLeft) const {
    std::vector<Oriented> found;
    for (const Stored &stored : unread)
      if (stored.view.shape.size() == 2)
        for (bool isTransposed : {false, true}) {
          MatrixView m{stored.view, isTransposed};
          if ((isLeft ? m.rows() : m.columns()) == size && (isLeft ? m.columns() : m.rows()) < limit)
            found.push_back({&stored, isTransposed});
        }
    return found;
  }

  static double dot(const MatrixView &left, const MatrixView &right, int64_t row, int64_t column, double &size) {
    double sum = 0;
    size = 0;
    for (int64_t k = 0; k < left.columns(); ++k) {
      double term = left.at(row, k) * right.at(k, column);
      sum += term;
      size += std::fabs(term);
    }
    return sum;
  }

  /// `rest`: the constant, or what is left of it without a base.
  template <typename Rest>
  std::optional<double> scaleOf(const Product &product, int64_t rows, int64_t columns, double rounding, Rest rest) {
    const MatrixView left = product.left.matrix(), right = product.right.matrix();
    double scale = 0, best = 0, size;
    const int64_t count = rows * columns;
    // Where the product is large, its factor is exact.
    std::vector<double> sums(kSamples), sizes(kSamples), wanted(kSamples);
    for (int64_t i = 0; i < kSamples; ++i) {
      int64_t at = sampleOf(i, count);
      sums[i] = dot(left, right, at / columns, at % columns, sizes[i]);
      wanted[i] = rest(at / columns, at % columns, size);
      work += double(left.columns());
      if (std::fabs(sums[i]) > best) {
        best = std::fabs(sums[i]);
        scale = wanted[i] / sums[i];
      }
      if (i >= 2 && best > 0 && std::fabs(wanted[i] - scale * sums[i]) > 1e-2 * std::fabs(scale) * sizes[i] + 1e-9)
        return std::nullopt;
    }
    if (best == 0 || !std::isfinite(scale) || std::fabs(scale) < 1e-6)
      return std::nullopt;
    if (std::fabs(scale - 1) < 64 * rounding)
      scale = 1;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        double terms, around, sum = dot(left, right, row, column, terms), is = rest(row, column, around);
        if (!(std::fabs(is - scale * sum) <= rounding * (std::fabs(scale) * terms + around) + 1e-12))
          return std::nullopt;
      }
    return scale;
  }

  std::optional<Product> findProduct(const TensorView &view) {
    if (view.shape.size() != 2)
      return std::nullopt;
    const int64_t rows = view.rows(), columns = view.columns(), limit = std::min(rows, columns);
    std::vector<Oriented> bases;
    for (const Stored &stored : unread)
      if (stored.view.shape.size() == 2)
        for (bool isTransposed : {false, true})
          if (MatrixView m{stored.view, isTransposed}; m.rows() == rows && m.columns() == columns)
            bases.push_back({&stored, isTransposed});
    const std::vector<Oriented> lefts = sides(rows, limit, true), rights = sides(columns, limit, false);
    for (const Oriented &left : lefts)
      for (const Oriented &right : rights) {
        if (left.tensor == right.tensor || left.matrix().columns() != right.matrix().rows() || work > kMostWork)
          continue;
        Product product{left, right, std::nullopt, 1};
        const double rounding = 4 * roundingOf(view.type, left.tensor->view.type) + 2e-6;
        auto whole = [&](int64_t row, int64_t column, double &around) {
          around = 0;
          return view.at(row * columns + column);
        };
        if (std::optional<double> scale = scaleOf(product, rows, columns, rounding, whole)) {
          product.scale = *scale;
          return product;
        }
        // An adapter that was merged: its parts stand below one module.
        StringRef owner = ownerOf(left.tensor->name);
        if (owner.empty() || ownerOf(right.tensor->name) != owner)
          continue;
        for (const Oriented &base : bases) {
          if (!StringRef(base.tensor->name).starts_with(owner))
            continue;
          product.base = base;
          auto rest = [&](int64_t row, int64_t column, double &around) {
            double own = base.matrix().at(row, column);
            around = std::fabs(own);
            return view.at(row * columns + column) - own;
          };
          if (std::optional<double> scale = scaleOf(product, rows, columns, rounding, rest)) {
            product.scale = *scale;
            return product;
          }
        }
      }
    return std::nullopt;
  }

  void replace(const Initializer &constant, const Product &product) {
    const std::string name = constant.name;
    const ElementType type = constant.type;
    std::string left = restored(constant, *product.left.tensor), right = restored(constant, *product.right.tensor);
    std::string words = (product.scale != 1 ? numberText(product.scale) + " * " : "") + left + " @ " + right;
    std::string base = product.base ? restored(constant, *product.base->tensor) : "";
    notes.push_back("'" + name + "' in the graph is " + (base.empty() ? "" : base + " + ") + words +
                    ", by value: all of them are trained, as this product");
    NodeChain chain(model, name);
    if (product.left.isTransposed)
      left = chain.transpose(left);
    if (product.right.isTransposed)
      right = chain.transpose(right);
    std::string value = chain.add("MatMul", {left, right});
    if (product.scale != 1)
      value = chain.add("Mul", {value, chain.real(type, product.scale)});
    if (product.base) {
      if (product.base->isTransposed)
        base = chain.transpose(base);
      chain.add("Add", {value, base});
    }
    chain.finish(name);
  }

  Model &model;
  const Names &names;
  std::vector<std::string> &notes;
  std::vector<Stored> all, unread;
  double work = 0;
};

} // namespace

void restoreFoldedPairs(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                        std::vector<std::string> &notes) {
  if (checkpoint)
    PairRestorer(model, names, *checkpoint, notes).run();
}

} // namespace ztc::importer
