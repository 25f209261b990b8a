#include "frontends/onnx/FoldedFunctions.h"
#include "frontends/onnx/ConstantCore.h"
#include "frontends/onnx/FunctionTable.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/PositionTables.h"
#include "frontends/onnx/StoredTensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <optional>
#include <set>

using llvm::ArrayRef;
using llvm::formatv;
using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Larger tensors are matrices of products, which are held against a checkpoint elsewhere.
constexpr int64_t kMostFunctionElements = 1 << 16;

/// The first row's numbers add up to one.
bool isDistribution(ArrayRef<double> elements, int64_t width) {
  double sum = 0;
  for (double element : elements.take_front(width))
    sum += element;
  return std::fabs(sum - 1) < 1e-3;
}

/// A tensor that a constant may be computed from.
struct Source {
  std::string name; ///< in the graph's own terms
  TensorView view;
  std::vector<double> elements;
  bool isMerged = false; ///< the graph's initializer stands for more than one parameter
  bool isRead = false;   ///< the graph has it under its own name
};

/// Which function of which tensor, or of which element of it.
struct Match {
  const Source *source;
  const FoldedFunction *function;
  double scale = 1;
  int64_t element = -1;

  std::string words() const {
    std::string text = (scale != 1 ? numberText(scale) + " * " : "") + function->words;
    return (element < 0 ? text : formatv("element {0} of {1}", element, text).str()) + " of " + source->name;
  }
};

/// What a constant becomes, and for which of the nodes that read it.
struct Replacement {
  const Initializer *constant;
  Match match;
  std::vector<std::pair<std::string, unsigned>> readers; ///< as FilePlace has them; empty: all
};

/// "sub" of what dynamo called "sub_1".
StringRef callOf(StringRef name) {
  StringRef stem = name.rtrim("0123456789");
  return stem != name ? stem.rtrim('_') : name;
}

std::vector<double> elementsOf(const TensorView &view) {
  std::vector<double> elements(view.bytes.empty() ? 0 : view.count());
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i] = view.at(int64_t(i));
  return elements;
}

/// So few different values that others may have them by chance: two are enough where neither is a round number.
bool isWeak(ArrayRef<double> elements) {
  std::set<double> values(elements.begin(), elements.begin() + std::min<size_t>(elements.size(), 64));
  auto isRound = [](double value) { return value * 64 == std::round(value * 64); };
  return values.size() < 2 || (values.size() == 2 && llvm::any_of(values, isRound));
}

class FunctionRestorer {
public:
  FunctionRestorer(Model &model, const Names &names, const SafetensorsCollection *files,
                   std::vector<std::string> &notes, std::string &error)
      : model(model), names(names), notes(notes), error(error), files(files) {}

  bool run() {
    collectSources();
    if (sources.empty())
      return true;
    collectReaders();
    std::vector<Replacement> found;
    for (const Initializer &constant : model.initializers) {
      if (!isFloat(constant.type) || !constant.count() || constant.count() > kMostFunctionElements ||
          constant.isRestored || own.contains(constant.name) || !readers.count(constant.name) ||
          !mayBeComputed(constant.name))
        continue;
      if (!explain(constant, found))
        return false;
    }
    for (const Replacement &one : found) {
      notes.push_back("'" + one.constant->name + "' in the graph is " + one.match.words() +
                      ", by value: trained as this function of it");
      replace(one);
    }
    return true;
  }

private:
  void add(std::string name, TensorView view, bool isRead) {
    if (!isFloat(view.type) || view.bytes.empty() || !view.count() || view.count() > kMostFunctionElements)
      return;
    Source source{std::move(name), std::move(view), {}, false, isRead};
    source.elements = elementsOf(source.view);
    sources.push_back(std::move(source));
  }

  /// What the graph has under its own name proves what it holds itself; the checkpoint has what it does not have.
  void collectSources() {
    for (const Initializer &initializer : model.initializers) {
      if (!isFloat(initializer.type) || names.checkpointName(initializer.name).empty())
        continue;
      own.insert(initializer.name);
      if (names.kindOf(initializer) != Names::Kind::Buffer)
        add(initializer.name, viewOf(model, initializer), true);
    }
    if (files)
      for (const TensorView &tensor : floatTensorsOf(*files)) {
        std::string name = model.graphName(tensor.name);
        if (model.initializer(name)) {
          if (own.insert(name).second)
            add(name, viewOf(model, *model.initializer(name)), true);
        } else if (names.kindOfTensor(tensor.name) != Names::Kind::Buffer) {
          add(name, tensor, false);
        }
      }
    llvm::StringMap<std::set<std::string>> called;
    for (const Node &node : model.nodes)
      for (auto [i, input] : llvm::enumerate(node.inputs))
        if (const Initializer *initializer = model.initializer(input); initializer && own.contains(input))
          called[input].insert(names.parameterOf(node, unsigned(i), *initializer).name);
    for (Source &source : sources)
      source.isMerged = called.count(source.name) && called[source.name].size() > 1;
  }

  void collectReaders() {
    for (const Node &node : model.nodes)
      for (const std::string &input : node.inputs)
        if (const Initializer *initializer = model.initializer(input); initializer && isFloat(initializer->type))
          readers[input].push_back(&node);
  }

  static bool isArithmetic(const Node &node) {
    return node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div" || node.op == "Pow" ||
           node.op == "Sum";
  }

  /// A literal number of the model's code is called so; weights that are folded into a product have other ways home.
  static bool mayBeComputed(StringRef name) { return !name.contains("Constant"); }

  /// The exporter's word that the constant was computed: dynamo's text of a reader names it as a value of its own,
  /// TorchScript numbers it, onnxruntime leaves the name of the node's output.
  bool isCalledComputed(StringRef name) const {
    if (name.starts_with("onnx::") || (name.starts_with("/") && name.contains("_output_")))
      return true;
    std::string mention = ("%" + name).str();
    return llvm::any_of(readers.lookup(name), [&](const Node *node) {
      StringRef text = node->fxNode;
      size_t at = text.find(mention);
      if (at == StringRef::npos)
        return false;
      StringRef rest = text.drop_front(at + mention.size());
      return rest.empty() || !(llvm::isAlnum(rest.front()) || rest.front() == '_');
    });
  }

  /// The exporter's word that a bound or a choice came last: what is equal to a function of a parameter inside of the
  /// bounds is not that function.
  bool isCalledBounded(StringRef name) const {
    static const std::set<StringRef> calls{"clamp", "clamp_min", "clamp_max", "clip",     "minimum",    "maximum",
                                           "min",   "max",       "where",     "hardtanh", "nan_to_num", "relu"};
    if (name.contains("/Clip_output") || name.contains("/Min_output") || name.contains("/Max_output") ||
        name.contains("/Where_output"))
      return true;
    return calls.count(callOf(name)) && isCalledComputed(name);
  }

  /// Where a parameter stands, and what has other ways home: a vector that scales or shifts.
  bool isParameterPlace(const Initializer &constant) const {
    return constant.shape.size() == 1 && constant.shape[0] > 1 &&
           llvm::any_of(readers.lookup(constant.name), [](const Node *node) {
             return node->op == "Mul" || node->op == "Add" || StringRef(node->op).ends_with("Normalization");
           });
  }

  /// A tensor has the name that the constant gets in its place: it is held against that one.
  bool isNamedAsStored(const Initializer &constant) const {
    if (!files)
      return true;
    for (const Node *node : readers.lookup(constant.name))
      for (auto [i, input] : llvm::enumerate(node->inputs))
        if (input == constant.name) {
          std::string name = model.graphName(names.parameterOf(*node, unsigned(i), constant).name);
          if (llvm::any_of(sources, [&](const Source &source) { return source.name == name; }))
            return true;
        }
    return false;
  }

  bool explain(const Initializer &constant, std::vector<Replacement> &found) const {
    std::vector<double> all = elementsOf(viewOf(model, constant));
    // A mask's -inf is computed from no parameter, though log(0) of one is equal to it.
    const bool isFinite = llvm::all_of(all, [](double x) { return std::isfinite(x); });
    if (all.empty() || !isFinite || holdsAngles(model, constant) || isCalledBounded(constant.name))
      return true;
    ConstantCore core(constant.shape, std::move(all));
    const bool weak = isWeak(core.elements);
    const bool isCalled = isCalledComputed(constant.name),
               isFx = isCalled && !StringRef(constant.name).contains(':') && !StringRef(constant.name).starts_with("/");
    if (weak &&
        (!isCalled || !llvm::any_of(readers.lookup(constant.name), [](const Node *n) { return isArithmetic(*n); })))
      return true;
    std::vector<Match> matches;
    for (const Source &source : sources)
      addMatches(constant, core, source, weak, isFx, matches);
    if (matches.empty())
      return !weak || !isFx || explainsItself(constant, core);
    bool isClear = matches.size() == 1 && !matches[0].source->isMerged && (!weak || isFx || !matches[0].source->isRead);
    if (isClear) {
      found.push_back({&constant, matches[0], {}});
      return true;
    }
    if (!weak && splitByModule(constant, matches, found))
      return true;
    std::string list = matches[0].words();
    for (size_t i = 1; i < matches.size() && i < 3; ++i)
      list += ", or " + matches[i].words();
    if (matches.size() == 1)
      list +=
          matches[0].source->isMerged ? ", or of another parameter that is equal to it" : ", or a number of the model";
    error = "the constant '" + constant.name + "' may be " + list +
            ": which, the graph does not tell, and one of them "
            "would be trained wrong; " +
            wayOut();
    return false;
  }

  /// In an untrained model several layers have equal tensors: each node reads the one of its own module. False where a
  /// node has no such tensor, or has two.
  bool splitByModule(const Initializer &constant, llvm::ArrayRef<Match> matches,
                     std::vector<Replacement> &found) const {
    std::vector<Replacement> split;
    for (const Node *node : readers.lookup(constant.name)) {
      const std::string scope = names.scopeOf(*node);
      const Match *chosen = nullptr;
      for (const Match &match : matches) {
        if (match.element >= 0 || match.source->isMerged || !names.isOfModule(match.source->name, scope))
          continue;
        if (chosen)
          return false;
        chosen = &match;
      }
      if (!chosen)
        return false;
      auto known = llvm::find_if(split, [&](const Replacement &r) { return r.match.source == chosen->source; });
      if (known == split.end())
        known = split.insert(split.end(), {&constant, *chosen, {}});
      for (auto [input, name] : llvm::enumerate(node->inputs))
        if (name == constant.name)
          known->readers.push_back({node->outputs[0], unsigned(input)});
    }
    found.insert(found.end(), split.begin(), split.end());
    return true;
  }

  void addMatches(const Initializer &constant, const ConstantCore &core, const Source &source, bool weak, bool isFx,
                  std::vector<Match> &matches) const {
    const Shape wanted = withoutOnes(core.shape), shape = withoutOnes(source.view.shape);
    const double rounding = roundingOf(constant.type, source.view.type);
    const bool isWhole = wanted == shape;
    const bool isElement = core.elements.size() == 1 && shape.size() == 1 && shape[0] <= 64 && isFx && !source.isRead;
    if (!isWhole && !isElement)
      return;
    const int64_t width = source.view.columns();
    const std::string call = (" " + callOf(constant.name) + " ").str();
    const bool takesElement = StringRef(" select getitem unbind index slice split squeeze ").contains(call);
    bool isElementItself = false;
    auto isEqual = [&](const FoldedFunction &function, double y, double wantedValue) {
      double size = std::max(std::fabs(y), function.hasOne ? 1.0 : 0.0);
      return std::isfinite(y) && std::fabs(y - wantedValue) <= 8 * rounding * size;
    };
    const bool isSame =
        isWhole && llvm::all_of(llvm::zip(source.elements, core.elements), [&](auto pair) {
          return std::fabs(std::get<0>(pair) - std::get<1>(pair)) <= rounding * std::fabs(std::get<1>(pair));
        });
    if (isSame) // the tensor itself, which others find; its absolute value is equal by chance
      return;
    if (isElement && takesElement) // what was only taken out of a tensor
      for (auto [i, element] : llvm::enumerate(source.elements))
        if (element == core.elements[0]) {
          matches.push_back({&source, &foldedFunctions().back(), 1, int64_t(i)});
          isElementItself = true;
        }
    if (isElementItself)
      return;
    const bool isElsewhere = isParameterPlace(constant) && isNamedAsStored(constant);
    const size_t before = matches.size();
    for (const FoldedFunction &function : foldedFunctions()) {
      const bool isIdentity = function.steps.empty();
      if (weak && isFx && !StringRef(function.calls).contains(call) && !(isElement && takesElement))
        continue;
      if (isWhole && (isIdentity || (!function.of && core.elements.size() < 2)))
        continue;
      if (isWhole && StringRef(function.words) == "1 + w" && isElsewhere)
        continue;
      if (isWhole && function.of) { // most differ in the first element
        if (llvm::all_of(llvm::zip(source.elements, core.elements), [&](auto pair) {
              return isEqual(function, function.of(std::get<0>(pair)), std::get<1>(pair));
            }))
          matches.push_back({&source, &function});
        continue;
      }
      if (isWhole && !isDistribution(core.elements, width))
        continue;
      std::vector<double> y = function.apply(source.elements, width);
      if (isWhole) {
        if (llvm::all_of(llvm::zip(y, core.elements),
                         [&](auto pair) { return isEqual(function, std::get<0>(pair), std::get<1>(pair)); }))
          matches.push_back({&source, &function});
        continue;
      }
      for (auto [i, element] : llvm::enumerate(y))
        if (isEqual(function, element, core.elements[0]))
          matches.push_back({&source, &function, 1, int64_t(i)});
    }
    if (isWhole && !weak && core.elements.size() >= 4 && matches.size() == before)
      for (const FoldedFunction &function : foldedFunctions())
        if (function.of && (!function.steps.empty() || (!isElsewhere && core.elements.size() >= 8)))
          addMultiple(core, source, function, rounding, matches);
  }

  /// c * f(w), where values tell c.
  void addMultiple(const ConstantCore &core, const Source &source, const FoldedFunction &function, double rounding,
                   std::vector<Match> &matches) const {
    if (function.words == StringRef("-w") || function.words == StringRef("|w|")) // c * w
      return;
    const std::vector<double> &mine = core.elements;
    const double first = function.of(source.elements[0]), second = function.of(source.elements[1]);
    if (!(std::fabs(mine[0] * second - mine[1] * first) <= 1e-2 * std::fabs(mine[0] * second))) // at a glance
      return;
    const std::vector<double> theirs = function.apply(source.elements, source.view.columns());
    double products = 0, squares = 0;
    for (auto [c, y] : llvm::zip(mine, theirs)) {
      products += c * y;
      squares += y * y;
    }
    const double scale = squares ? products / squares : 0;
    bool isMultiple = scale != 0 && std::isfinite(scale) && std::fabs(scale + 1) > 1e-6 && std::fabs(scale - 1) > 1e-6;
    for (auto [c, y] : llvm::zip(mine, theirs))
      isMultiple =
          isMultiple && std::fabs(c - scale * y) <=
                            4 * rounding * std::max(std::fabs(c), function.hasOne ? std::fabs(scale) : 0) + 1e-30;
    if (isMultiple)
      matches.push_back({&source, &function, scale});
  }

  /// A number that was computed, and from no parameter that is known: harmless where no parameter is a number.
  bool explainsItself(const Initializer &constant, const ConstantCore &core) const {
    static const std::set<StringRef> calls{"add", "sub",  "rsub",  "mul",     "div",  "neg",      "exp",       "log",
                                           "pow", "sqrt", "rsqrt", "sigmoid", "tanh", "softplus", "reciprocal"};
    if (!calls.count(callOf(constant.name)) || core.elements.size() != 1)
      return true;
    auto number = llvm::find_if(sources, [](const Source &source) { return source.view.count() == 1; });
    if (number == sources.end())
      return true;
    error = "the exporter computed the constant '" + constant.name + "' (" + numberText(core.elements[0]) +
            "), and the graph does not tell from what: it may be a function of " + number->name +
            ", which would be trained wrong; " + wayOut();
    return false;
  }

  static std::string wayOut() {
    return "export again with optimize=False (dynamo) or do_constant_folding=False (TorchScript)";
  }

  void replace(const Replacement &replacement) {
    const Initializer &constant = *replacement.constant;
    const Match &match = replacement.match;
    const std::string value =
        constant.name + "/function" + (replacement.readers.empty() ? "" : "/" + match.source->name);
    // The tensor's dimensions where the constant has them, 1 where it repeats.
    const Shape spread = match.element >= 0 ? Shape(constant.shape.size(), 1)
                                            : ConstantCore(constant.shape, elementsOf(viewOf(model, constant))).shape;
    auto function = [of = match.function, scale = match.scale,
                     width = match.source->view.columns()](const std::vector<float> &trained) {
      std::vector<double> values = of->apply({trained.begin(), trained.end()}, width, scale);
      return std::vector<float>(values.begin(), values.end());
    };
    model.addRestored(match.source->name, constant.type, match.source->view.shape)
        .filePlaces.push_back({match.element >= 0 ? FilePlace::Kind::Rows : FilePlace::Kind::Whole,
                               constant.nameInFile(), std::max<int64_t>(match.element, 0), spread, function,
                               replacement.readers});
    for (Node &node : model.nodes)
      if (replacement.readers.empty() ||
          llvm::any_of(replacement.readers, [&](const auto &reader) { return reader.first == node.outputs[0]; }))
        llvm::replace(node.inputs, constant.name, value);
    std::vector<Node> chain;
    std::string last = match.source->name;
    auto emit = [&](const char *op, std::vector<std::string> inputs) {
      Node node;
      node.op = node.signature = op;
      node.name = value + "/" + std::to_string(chain.size());
      node.inputs = std::move(inputs);
      node.outputs = {node.name};
      last = node.name;
      chain.push_back(std::move(node));
    };
    using Step = FoldedFunction::Step;
    for (const Step &step : match.function->steps) {
      std::string number = value + "/number" + std::to_string(chain.size());
      if (step.operands == Step::NumberFirst || step.operands == Step::NumberSecond)
        model.addReal(number, constant.type, step.number);
      switch (step.operands) {
      case Step::Value:
        emit(step.op, {last});
        break;
      case Step::NumberFirst:
        emit(step.op, {number, last});
        break;
      case Step::NumberSecond:
        emit(step.op, {last, number});
        break;
      case Step::Twice:
        emit(step.op, {last, last});
        break;
      }
    }
    if (match.scale != 1)
      emit("Mul", {last, model.addReal(value + "/scale", constant.type, match.scale).name});
    if (match.element >= 0)
      emit("Slice", {last, model.addIntegers(value + "/start", {match.element}).name,
                     model.addIntegers(value + "/end", {match.element + 1}).name,
                     model.addIntegers(value + "/axis", {int64_t(match.source->view.shape.size()) - 1}).name});
    emit("Reshape", {last, model.addIntegers(value + "/shape", spread).name});
    emit("Expand", {last, model.addIntegers(value + "/whole", constant.shape).name});
    chain.back().outputs = {value};
    model.nodes.insert(model.nodes.begin(), chain.begin(), chain.end());
    model.indexProducers();
  }

  Model &model;
  const Names &names;
  std::vector<std::string> &notes;
  std::string &error;
  const SafetensorsCollection *files; ///< null: none
  std::vector<Source> sources;
  llvm::StringSet<> own; ///< initializers that the checkpoint has under their name
  llvm::StringMap<std::vector<const Node *>> readers;
};

} // namespace

bool restoreFoldedFunctions(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                            std::vector<std::string> &notes, std::string &error) {
  return FunctionRestorer(model, names, checkpoint, notes, error).run();
}

} // namespace ztc::importer
