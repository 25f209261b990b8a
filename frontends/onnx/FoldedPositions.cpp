#include "frontends/onnx/FoldedPositions.h"
#include "frontends/onnx/ConstantCore.h"
#include "frontends/onnx/FunctionTable.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/NodeChain.h"
#include "frontends/onnx/PositionTables.h"
#include "frontends/onnx/StoredTensors.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <limits>
#include <optional>
#include <set>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Larger ones are read by nobody: they would be gigabytes of the graph.
constexpr int64_t kMostPositionElements = int64_t(1) << 24;
/// Distances are whole numbers below this.
constexpr double kFarthest = 1 << 20;

/// A vector of the checkpoint that the graph does not read.
struct Vector {
  std::string name; ///< in the graph's own terms
  TensorView view;
  std::vector<double> elements;
};

/// f(w) * p: whole numbers by place, 0 where another term stands.
struct Term {
  const Vector *vector; ///< while constants are looked at
  const FoldedFunction *function;
  std::vector<double> places;
};

/// A sum of terms, or exp of it, and what is hidden.
struct Table {
  std::vector<Term> terms;
  bool isExponential = false;
  unsigned axis = 0; ///< of the constant, along which the vectors' elements stand
  Shape shape;       ///< of places: the constant's, with 1 along `axis` and where it repeats
  std::vector<bool> hidden;

  double hiddenValue() const { return isExponential ? 0 : -std::numeric_limits<double>::infinity(); }
};

/// A constant with w's elements along one axis: element (h, q) of it, q over all other axes.
struct Rows {
  const ConstantCore &core;
  int64_t count, inner;

  Rows(const ConstantCore &core, unsigned axis) : core(core), count(core.shape[axis]), inner(1) {
    for (int64_t size : llvm::ArrayRef<int64_t>(core.shape).drop_front(axis + 1))
      inner *= size;
  }
  int64_t places() const { return int64_t(core.elements.size()) / count; }
  double at(int64_t h, int64_t q) const { return core.elements[(q / inner * count + h) * inner + q % inner]; }
};

/// The place that an element tells, as a whole number.
std::optional<double> placeOf(double element, double w, bool isExponential) {
  double place = (isExponential ? std::log(element) : element) / w, whole = std::round(place);
  if (!std::isfinite(place) || std::fabs(whole) > kFarthest ||
      std::fabs(place - whole) > 1e-3 * std::max(1.0, std::fabs(whole)))
    return std::nullopt;
  return whole;
}

bool agreesWithin(double element, double wanted, double exponent, double rounding) {
  if (element == wanted)
    return true;
  return std::fabs(element - wanted) <= 8 * rounding * std::fabs(wanted) * std::max(1.0, std::fabs(exponent)) + 1e-37;
}

/// Which places of a constant one term explains.
struct Explained {
  std::vector<double> places;
  std::vector<bool> known, hidden;
  size_t open = 0, different = 0;
};

/// The places of `wanted` that are w * p, or exp of it, for all elements of w.
Explained explain(const Rows &rows, const std::vector<double> &w, bool isExponential, double rounding,
                  const std::vector<bool> &wanted) {
  const int64_t count = rows.places();
  Explained found{std::vector<double>(count), std::vector<bool>(count), std::vector<bool>(count)};
  std::set<double> different;
  for (int64_t q = 0; q < count; ++q) {
    if (!wanted[q])
      continue;
    int64_t teller = -1; // the element that tells the place best
    bool isHidden = true;
    for (int64_t h = 0; h < rows.count; ++h) {
      const double element = rows.at(h, q);
      isHidden &= isExponential ? element == 0 : std::isinf(element) && element < 0;
      if (std::isfinite(element) && !(isExponential && element <= 0) &&
          (teller < 0 || std::fabs(w[h]) > std::fabs(w[teller])))
        teller = h;
    }
    found.known[q] = found.hidden[q] = isHidden;
    std::optional<double> place = teller < 0 ? std::nullopt : placeOf(rows.at(teller, q), w[teller], isExponential);
    bool isEqual = place.has_value();
    for (int64_t h = 0; h < rows.count && isEqual; ++h) {
      const double exponent = w[h] * *place;
      isEqual = agreesWithin(rows.at(h, q), isExponential ? std::exp(exponent) : exponent, isExponential ? exponent : 0,
                             rounding);
    }
    if (isEqual) {
      found.known[q] = true;
      different.insert(found.places[q] = *place);
    }
    found.open += !found.known[q];
  }
  found.different = different.size();
  return found;
}

class PositionRestorer {
public:
  PositionRestorer(Model &model, const Names &names, const SafetensorsCollection &files,
                   std::vector<std::string> &notes)
      : model(model), names(names), notes(notes) {
    for (const TensorView &tensor : floatTensorsOf(files)) {
      const bool isVector = llvm::count_if(tensor.shape, [](int64_t size) { return size != 1; }) == 1;
      std::string name = model.graphName(tensor.name);
      if (!isVector || model.initializer(name) || names.kindOfTensor(tensor.name) == Names::Kind::Buffer)
        continue;
      Vector vector{std::move(name), tensor, {}};
      for (int64_t i = 0, n = tensor.count(); i < n; ++i)
        vector.elements.push_back(tensor.at(i));
      vectors.push_back(std::move(vector));
    }
  }

  void run() {
    if (vectors.empty())
      return;
    std::vector<const Initializer *> constants;
    for (const Initializer &constant : model.initializers)
      if (isFloat(constant.type) && constant.shape.size() >= 2 && constant.count() >= 6 &&
          constant.count() <= kMostPositionElements && !constant.isRestored &&
          names.checkpointName(constant.name).empty())
        constants.push_back(&constant);
    for (const Initializer *constant : constants)
      if (std::optional<Table> table = find(*constant))
        replace(*constant, *table);
  }

private:
  std::optional<Table> find(const Initializer &constant) const {
    const bool hasSize = llvm::any_of(vectors, [&](const Vector &vector) {
      return llvm::is_contained(constant.shape, int64_t(vector.elements.size()));
    });
    if (!hasSize || holdsAngles(model, constant))
      return std::nullopt;
    const TensorView view = viewOf(model, constant);
    if (view.bytes.empty())
      return std::nullopt;
    std::vector<double> all(view.count());
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = view.at(int64_t(i));
    const ConstantCore core(constant.shape, std::move(all));
    for (const Vector &vector : vectors)
      for (unsigned axis = 0; axis < core.shape.size(); ++axis)
        if (core.shape[axis] == int64_t(vector.elements.size()) && int64_t(core.elements.size()) > core.shape[axis])
          if (std::optional<Table> table = tableOf(constant, core, vector, axis))
            return table;
    return std::nullopt;
  }

  /// f(w) of each element; empty where a place could not be told from it.
  static std::vector<double> valuesOf(const Vector &vector, const FoldedFunction &function) {
    std::vector<double> w;
    if (!function.of || StringRef(function.words) == "|w|")
      return w;
    for (double element : vector.elements)
      w.push_back(function.of(element));
    return llvm::all_of(w, [](double x) { return std::isfinite(x) && x != 0; }) ? w : std::vector<double>();
  }

  std::optional<Table> tableOf(const Initializer &constant, const ConstantCore &core, const Vector &vector,
                               unsigned axis) const {
    const Rows rows(core, axis);
    const double rounding = roundingOf(constant.type, vector.view.type);
    const std::vector<bool> everywhere(rows.places(), true);
    for (bool isExponential : {false, true})
      for (const FoldedFunction &function : llvm::reverse(foldedFunctions())) { // the vector itself first
        const std::vector<double> w = valuesOf(vector, function);
        if (w.empty())
          continue;
        Explained found = explain(rows, w, isExponential, rounding, everywhere);
        if (found.different < 3)
          continue;
        Table table{{{&vector, &function, found.places}}, isExponential, axis, core.shape, found.hidden};
        table.shape[axis] = 1;
        if (found.open == 0 || addSecond(table, found, rows, rounding))
          return table;
      }
    return std::nullopt;
  }

  /// What the first term leaves open another vector explains: a bonus of the token itself.
  bool addSecond(Table &table, const Explained &first, const Rows &rows, double rounding) const {
    std::vector<bool> open(first.known);
    open.flip();
    for (const Vector &vector : vectors) {
      std::set<double> different(vector.elements.begin(), vector.elements.end());
      if (&vector == table.terms[0].vector || int64_t(vector.elements.size()) != rows.count || different.size() < 4)
        continue;
      for (const FoldedFunction &function : llvm::reverse(foldedFunctions())) {
        const std::vector<double> w = valuesOf(vector, function);
        if (w.empty())
          continue;
        Explained found = explain(rows, w, table.isExponential, rounding, open);
        if (found.open)
          continue;
        table.terms.push_back({&vector, &function, found.places});
        for (size_t q = 0; q < open.size(); ++q)
          table.hidden[q] = table.hidden[q] || (open[q] && found.hidden[q]);
        return true;
      }
    }
    return false;
  }

  static std::string emitSteps(NodeChain &chain, const FoldedFunction &function, ElementType type, std::string last) {
    using Step = FoldedFunction::Step;
    for (const Step &step : function.steps) {
      if (step.operands == Step::Value)
        last = chain.add(step.op, {last});
      else if (step.operands == Step::Twice)
        last = chain.add(step.op, {last, last});
      else if (step.operands == Step::NumberFirst)
        last = chain.add(step.op, {chain.real(type, step.number), last});
      else
        last = chain.add(step.op, {last, chain.real(type, step.number)});
    }
    return last;
  }

  void replace(const Initializer &constant, const Table &table) {
    const std::string name = constant.name;
    const Shape whole = constant.shape;
    const ElementType type = constant.type;
    NodeChain chain(model, name);
    std::string value, words;
    for (const Term &term : table.terms) {
      Shape along(whole.size(), 1);
      along[table.axis] = int64_t(term.vector->elements.size());
      std::string factor = chain.reshape(emitSteps(chain, *term.function, type, term.vector->name), along);
      std::string product = chain.add("Mul", {factor, chain.reals(type, table.shape, term.places)});
      value = value.empty() ? product : chain.add("Add", {value, product});
      words += (words.empty() ? "" : " + ") + std::string(term.function->words) + " of " + term.vector->name +
               " times positions";
    }
    notes.push_back("'" + name + "' in the graph is " + (table.isExponential ? "exp of " : "") + words +
                    ", by value: trained as this function");
    if (table.isExponential)
      value = chain.add("Exp", {value});
    if (llvm::is_contained(table.hidden, true)) {
      std::vector<double> mask;
      for (bool isHidden : table.hidden)
        mask.push_back(isHidden ? table.hiddenValue() : table.isExponential ? 1 : 0);
      value = chain.add(table.isExponential ? "Mul" : "Add", {value, chain.reals(type, table.shape, mask)});
    }
    chain.add("Expand", {value, chain.integers(whole)});
    for (const Term &term : table.terms)
      model.addRestored(term.vector->name, type, term.vector->view.shape)
          .filePlaces.push_back(table.terms.size() > 1
                                    ? FilePlace{FilePlace::Kind::Joint, constant.nameInFile(), 0, {}, nullptr}
                                    : placeIn(constant, table));
    chain.finish(name);
  }

  /// How the file's constant follows from the trained vector.
  static FilePlace placeIn(const Initializer &constant, const Table &table) {
    Shape spread(table.shape);
    spread[table.axis] = int64_t(table.terms[0].vector->elements.size());
    auto function = [term = table.terms[0], isExponential = table.isExponential, hidden = table.hidden,
                     other = table.hiddenValue(), shape = table.shape, axis = table.axis](std::vector<float> trained) {
      const int64_t count = int64_t(trained.size()), places = int64_t(term.places.size());
      int64_t inner = 1;
      for (int64_t size : llvm::ArrayRef<int64_t>(shape).drop_front(axis + 1))
        inner *= size;
      std::vector<float> values(count * places);
      for (int64_t h = 0; h < count; ++h)
        for (int64_t q = 0; q < places; ++q) {
          double exponent = term.function->of(trained[h]) * term.places[q];
          values[(q / inner * count + h) * inner + q % inner] = float(hidden[q]       ? other
                                                                      : isExponential ? std::exp(exponent)
                                                                                      : exponent);
        }
      return values;
    };
    return {FilePlace::Kind::Whole, constant.nameInFile(), 0, spread, function};
  }

  Model &model;
  const Names &names;
  std::vector<std::string> &notes;
  std::vector<Vector> vectors;
};

} // namespace

void restoreFoldedPositions(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                            std::vector<std::string> &notes) {
  if (checkpoint)
    PositionRestorer(model, names, *checkpoint, notes).run();
}

} // namespace ztc::importer
