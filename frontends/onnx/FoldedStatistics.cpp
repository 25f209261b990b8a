#include "frontends/onnx/FoldedStatistics.h"
#include "frontends/onnx/ConstantCore.h"
#include "frontends/onnx/NodeChain.h"
#include "frontends/onnx/PositionTables.h"
#include "frontends/onnx/StoredTensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <optional>
#include <set>

using llvm::StringRef;

namespace ztc::importer {
namespace {

enum class Kind { Norm, Squares, Mean };
enum class Over { Rows, Columns, All };

/// Larger constants are not statistics of a matrix.
constexpr int64_t kMostStatisticElements = int64_t(1) << 22;

struct Matrix {
  std::string name; ///< in the graph's own terms
  TensorView view;
};

/// One statistic of one matrix; `rows` and `columns` are the matrix's.
struct Statistic {
  Kind kind;
  Over over;
  int64_t rows, columns;

  int64_t count() const { return over == Over::All ? 1 : over == Over::Rows ? rows : columns; }
  /// Number `i` of it, where at(j) is element j of the matrix; and how large what was added up is.
  template <typename At> double value(int64_t i, At at, double *size = nullptr) const {
    const int64_t terms = over == Over::All ? rows * columns : over == Over::Rows ? columns : rows;
    const int64_t begin = over == Over::Rows      ? i * columns
                          : over == Over::Columns ? i
                                                  : 0,
                  step = over == Over::Columns ? columns : 1;
    double sum = 0, around = 0;
    for (int64_t k = 0; k < terms; ++k) {
      const double x = at(begin + k * step), term = kind == Kind::Mean ? x / double(terms) : x * x;
      sum += term;
      around += std::fabs(term);
    }
    if (size)
      *size = kind == Kind::Norm ? std::sqrt(around) : around;
    return kind == Kind::Norm ? std::sqrt(sum) : sum;
  }
  std::string words(const std::string &matrix) const {
    const char *what = kind == Kind::Norm ? "norm" : kind == Kind::Squares ? "sum of squares" : "mean";
    return std::string("the ") + what +
           (over == Over::All    ? " of "
            : over == Over::Rows ? " of each row of "
                                 : " of each column of ") +
           matrix;
  }
};

class StatisticRestorer {
public:
  StatisticRestorer(Model &model, const Names &names, const SafetensorsCollection *files,
                    std::vector<std::string> &notes)
      : model(model), notes(notes) {
    llvm::StringSet<> known;
    for (const Initializer &initializer : model.initializers)
      if (isFloat(initializer.type) && !names.checkpointName(initializer.name).empty()) {
        own.insert(initializer.name);
        if (names.kindOf(initializer) != Names::Kind::Buffer && known.insert(initializer.name).second)
          add(initializer.name, viewOf(model, initializer));
      }
    if (files)
      for (const TensorView &tensor : floatTensorsOf(*files))
        if (std::string name = model.graphName(tensor.name);
            names.kindOfTensor(tensor.name) != Names::Kind::Buffer && known.insert(name).second)
          add(name, tensor);
  }

  void run() {
    if (matrices.empty())
      return;
    std::set<StringRef> read;
    for (const Node &node : model.nodes)
      read.insert(node.inputs.begin(), node.inputs.end());
    std::vector<const Initializer *> constants;
    for (const Initializer &constant : model.initializers)
      if (isFloat(constant.type) && constant.count() && constant.count() <= kMostStatisticElements &&
          !constant.isRestored && !own.contains(constant.name) && read.count(constant.name) &&
          !StringRef(constant.name).contains("Constant"))
        constants.push_back(&constant);
    for (const Initializer *constant : constants)
      examine(*constant);
  }

private:
  void add(std::string name, TensorView view) {
    if (view.shape.size() == 2 && !view.bytes.empty() && view.rows() > 1 && view.columns() > 1)
      matrices.push_back({std::move(name), std::move(view)});
  }

  void examine(const Initializer &constant) {
    const int64_t longest = constant.shape.empty() ? 1 : *llvm::max_element(constant.shape);
    auto mayFit = [&](const Matrix &matrix) {
      return constant.count() == 1 || llvm::is_contained(constant.shape, matrix.view.rows()) ||
             llvm::is_contained(constant.shape, matrix.view.columns());
    };
    if (longest < 1 || llvm::none_of(matrices, mayFit) || holdsAngles(model, constant))
      return;
    const TensorView view = viewOf(model, constant);
    if (view.bytes.empty())
      return;
    std::vector<double> all(view.count());
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = view.at(int64_t(i));
    const ConstantCore core(constant.shape, std::move(all));
    if (llvm::count_if(core.shape, [](int64_t size) { return size != 1; }) > 1)
      return;
    for (const Matrix &matrix : matrices)
      for (Over over : {Over::Rows, Over::Columns, Over::All})
        for (Kind kind : {Kind::Norm, Kind::Squares, Kind::Mean}) {
          Statistic statistic{kind, over, matrix.view.rows(), matrix.view.columns()};
          if (statistic.count() != int64_t(core.elements.size()) || (over == Over::All && kind == Kind::Mean) ||
              !isThat(constant, core, matrix, statistic))
            continue;
          return replace(constant, core, matrix, statistic);
        }
  }

  static bool isThat(const Initializer &constant, const ConstantCore &core, const Matrix &matrix,
                     const Statistic &statistic) {
    const double rounding = 4 * roundingOf(constant.type, matrix.view.type) + 4e-6;
    for (auto [i, element] : llvm::enumerate(core.elements)) {
      double size = 0, wanted = statistic.value(int64_t(i), [&](int64_t j) { return matrix.view.at(j); }, &size);
      if (!(size > 0) || !(std::fabs(element - wanted) <= rounding * size))
        return false;
    }
    return true;
  }

  void replace(const Initializer &constant, const ConstantCore &core, const Matrix &matrix,
               const Statistic &statistic) {
    const std::string name = constant.name, source = matrix.name;
    const Shape whole = constant.shape, spread = core.shape;
    notes.push_back("'" + name + "' in the graph is " + statistic.words(source) +
                    ", by value: trained as this function of it");
    NodeChain chain(model, name);
    Shape axes;
    if (statistic.over != Over::Columns)
      axes.push_back(1);
    if (statistic.over != Over::Rows)
      axes.insert(axes.begin(), 0);
    std::string value = source;
    if (statistic.kind == Kind::Mean) {
      value = chain.add(
          "Mul", {source, chain.real(constant.type,
                                     1.0 / double(statistic.over == Over::Rows ? statistic.columns : statistic.rows))});
    } else {
      value = chain.add("Mul", {source, source});
    }
    value = chain.add("ReduceSum", {value, chain.integers(axes)});
    chain.set("keepdims", 1);
    if (statistic.kind == Kind::Norm)
      value = chain.add("Sqrt", {value});
    value = chain.reshape(value, spread);
    chain.add("Expand", {value, chain.integers(whole)});
    auto function = [statistic](const std::vector<float> &trained) {
      std::vector<float> values;
      for (int64_t i = 0; i < statistic.count(); ++i)
        values.push_back(float(statistic.value(i, [&](int64_t j) { return double(trained[j]); })));
      return values;
    };
    model.addRestored(source, constant.type, matrix.view.shape)
        .filePlaces.push_back({FilePlace::Kind::Whole, constant.nameInFile(), 0, spread, function});
    chain.finish(name);
  }

  Model &model;
  std::vector<std::string> &notes;
  std::vector<Matrix> matrices;
  llvm::StringSet<> own;
};

} // namespace

void restoreFoldedStatistics(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                             std::vector<std::string> &notes) {
  StatisticRestorer(model, names, checkpoint, notes).run();
}

} // namespace ztc::importer
