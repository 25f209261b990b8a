#include "frontends/onnx/ExplainWeights.h"
#include "frontends/onnx/InitializerBytes.h"
#include "frontends/onnx/MatchCache.h"
#include "frontends/onnx/MatchWeights.h"
#include "frontends/onnx/WeightFacts.h"
#include "frontends/onnx/Weights.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Parallel.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace mlir;
using llvm::formatv;

namespace ztc::importer {
namespace {

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "(";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + ")";
}

ElementType typeNamed(llvm::StringRef name) {
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64})
    if (elementName(type) == name)
      return type;
  return ElementType::Undefined;
}

/// One parameter of the graph and what is known of where it comes from.
struct Candidate {
  TensorView tensor; ///< no bytes: the graph was exported without its weights
  std::vector<unsigned> named;
  std::optional<WeightForm> form;
  Difference difference;
  bool isConstant = false;
  bool isTransposed = false; ///< as its name and use have it
};

class Explanation {
public:
  Explanation(Emitter &emitter, const Model &model, const Names &names, const ImportOptions &options,
              llvm::StringRef family, ImportReport &report)
      : emitter(emitter), model(model), options(options), report(report), facts(model, names, family), bytes(model),
        loc(UnknownLoc::get(emitter.function().getContext())) {}

  LogicalResult run() {
    StatusOr<SafetensorsCollection> opened = SafetensorsCollection::open(options.weights);
    if (!opened.isOk())
      return emitError(loc) << opened.status().message();
    for (const auto &file : opened->files())
      for (const SafetensorsTensor &tensor : file->tensors())
        if (ElementType type = typeNamed(tensor.typeName); type != ElementType::Undefined) {
          auto data = file->data(tensor);
          checkpoint.push_back({tensor.name,
                                {reinterpret_cast<const char *>(data.data()), data.size()},
                                type,
                                Shape(tensor.shape.begin(), tensor.shape.end())});
        }
    WeightMatcher matcher(checkpoint, options.weightRules);
    collect(matcher);
    bool hasValues = llvm::any_of(candidates, [](const Candidate &c) { return !c.tensor.bytes.empty(); });
    if (hasValues)
      compareOrRecall(matcher, *opened);
    return apply(matcher, hasValues);
  }

private:
  void collect(WeightMatcher &matcher) {
    for (const Parameter &parameter : emitter.parameters()) {
      Candidate candidate;
      candidate.tensor = bytes.view(*parameter.initializer);
      candidate.isTransposed = parameter.transposed;
      for (const std::string &name : checkpointNames(parameter))
        if (auto index = matcher.indexOf(name); index && !llvm::is_contained(candidate.named, *index))
          candidate.named.push_back(*index);
      candidates.push_back(std::move(candidate));
    }
  }

  void compareOrRecall(WeightMatcher &matcher, const SafetensorsCollection &files) {
    std::vector<std::string> paths{model.path};
    std::set<std::string> locations;
    for (const Parameter &parameter : emitter.parameters())
      if (parameter.initializer->isExternal)
        locations.insert(parameter.initializer->location);
    for (const std::string &location : locations)
      paths.push_back((llvm::sys::path::parent_path(model.path) + "/" + location).str());
    for (const auto &file : files.files())
      paths.push_back(file->path());
    const WeightRules &rules = options.weightRules;
    std::string key = formatv("{0}{1}{2}{3}{4}{5}{6}{7}{8}", rules.transpose, rules.cast, rules.shift, rules.scale,
                              rules.join, rules.range, rules.stack, rules.byValue, facts.hasShiftedNorms());
    for (const Parameter &parameter : emitter.parameters())
      key += "\n" + parameter.name + " " + parameter.initializer->name;
    key = matchKey(paths, key);
    if (recall(readMatches(key)))
      return;
    compare(matcher);
    nlohmann::json kept = nlohmann::json::array();
    for (const Candidate &c : candidates)
      kept.push_back({{"form", c.form ? c.form->toJson() : nlohmann::json(nullptr)},
                      {"constant", c.isConstant},
                      {"tensor", c.difference.tensor},
                      {"shape", std::vector<int64_t>(c.difference.shape.begin(), c.difference.shape.end())},
                      {"index", std::vector<int64_t>(c.difference.index.begin(), c.difference.index.end())},
                      {"values", {c.difference.inGraph, c.difference.inCheckpoint}}});
    keepMatches(key, kept);
  }

  bool recall(const nlohmann::json &kept) {
    if (!kept.is_array() || kept.size() != candidates.size())
      return false;
    std::vector<Candidate> recalled = candidates;
    for (auto [c, json] : llvm::zip(recalled, kept)) {
      if (!json.is_object() || !json.contains("form") || !json.contains("constant") || !json["constant"].is_boolean())
        return false;
      c.isConstant = json["constant"].get<bool>();
      if (!json["form"].is_null() && !(c.form = WeightForm::fromJson(json["form"])))
        return false;
      auto integers = [&](const char *name, Shape &out) {
        for (const nlohmann::json &entry : json.value(name, nlohmann::json::array()))
          if (entry.is_number_integer())
            out.push_back(entry.get<int64_t>());
      };
      if (json.contains("tensor") && json["tensor"].is_string())
        c.difference.tensor = json["tensor"].get<std::string>();
      integers("shape", c.difference.shape);
      integers("index", c.difference.index);
      if (json.contains("values") && json["values"].is_array() && json["values"].size() == 2) {
        c.difference.inGraph = json["values"][0].is_number() ? json["values"][0].get<double>() : 0;
        c.difference.inCheckpoint = json["values"][1].is_number() ? json["values"][1].get<double>() : 0;
      }
    }
    candidates = std::move(recalled);
    return true;
  }

  void compare(WeightMatcher &matcher) {
    llvm::parallelFor(0, candidates.size(), [&](size_t i) {
      Candidate &c = candidates[i];
      if (c.tensor.bytes.empty())
        return;
      c.isConstant = c.tensor.isConstant();
      c.form = matcher.findOne(c.tensor, c.named, facts.hasShiftedNorms());
      settle(matcher, c);
    });
    // Joined and split tensors are looked for where others agree: elsewhere there is nothing to find, and much to read.
    if (agreeing().first == 0)
      return;
    llvm::parallelFor(0, candidates.size(), [&](size_t i) {
      Candidate &c = candidates[i];
      if (c.tensor.bytes.empty() || c.form)
        return;
      c.form = matcher.findSeveral(c.tensor);
      settle(matcher, c);
    });
  }

  /// Proves a form that a sample suggested; else notes where the tensor that the name stands for differs.
  void settle(WeightMatcher &matcher, Candidate &c) {
    if (c.form && matcher.prove(c.tensor, *c.form, c.difference))
      return;
    c.form.reset();
    for (unsigned index : c.named) {
      const TensorView &other = matcher[index];
      WeightForm same = WeightForm::of(other.name, c.isTransposed);
      if (!c.difference.tensor.empty())
        return;
      c.difference.tensor = other.name;
      c.difference.shape = other.shape;
      Shape shape(other.shape);
      if (c.isTransposed && shape.size() == 2)
        std::swap(shape[0], shape[1]);
      if (shape == c.tensor.shape)
        (void)matcher.prove(c.tensor, same, c.difference);
    }
  }

  /// How many tensors agree, of how many that say something.
  std::pair<unsigned, unsigned> agreeing() const {
    unsigned agree = 0, all = 0;
    for (const Candidate &c : candidates)
      if (!c.tensor.bytes.empty() && !c.isConstant) {
        ++all;
        agree += c.form.has_value();
      }
    return {agree, all};
  }

  std::string describe(size_t i) const {
    const Candidate &c = candidates[i];
    const Parameter &parameter = emitter.parameters()[i];
    std::string text = "\n  " + parameter.name + " ";
    if (parameter.initializer->name != parameter.name)
      text += "('" + parameter.initializer->name + "') ";
    text += shapeText(c.tensor.shape);
    const Difference &d = c.difference;
    if (d.tensor.empty())
      return text + ": the checkpoint has no tensor of this name or of these values";
    text += ": '" + d.tensor + "' of the checkpoint has shape " + shapeText(d.shape);
    if (!d.index.empty())
      text += ", and at " + shapeText(d.index) + " the value " + numberText(d.inCheckpoint) + ", not " +
              numberText(d.inGraph);
    return text;
  }

  static llvm::StringRef wayOut() {
    return "\nexport again with optimize=False, or compile the Hugging Face folder itself";
  }

  /// The form of a parameter that values do not explain, from the graph and config.json.
  std::optional<WeightForm> byFacts(WeightMatcher &matcher, size_t i, std::string &problem) const {
    const Candidate &c = candidates[i];
    const Parameter &parameter = emitter.parameters()[i];
    for (unsigned index : c.named) {
      const TensorView &other = matcher[index];
      Shape turned(c.tensor.shape);
      if (parameter.transposed && turned.size() == 2)
        std::swap(turned[0], turned[1]);
      if (other.shape != turned)
        continue;
      WeightFact fact = facts.of(parameter);
      if (fact.kind == WeightFact::Kind::Unknown) {
        problem = "\n  " + parameter.name + " " + shapeText(c.tensor.shape) + ": " + fact.reason;
        return std::nullopt;
      }
      WeightForm form = WeightForm::of(other.name, parameter.transposed);
      form.shift = fact.kind == WeightFact::Kind::OnePlus ? 1 : 0;
      return form;
    }
    problem = "\n  " + parameter.name + " ";
    Shape shape(shapeOf(parameter.argument));
    problem += c.named.empty()
                   ? shapeText(shape) + " is missing"
                   : "has shape " + shapeText(matcher[c.named[0]].shape) + ", the graph needs " + shapeText(shape);
    return std::nullopt;
  }

  LogicalResult apply(WeightMatcher &matcher, bool hasValues) {
    auto [agree, all] = agreeing();
    bool isSame = hasValues && all && agree * 2 >= all;
    std::string problems;
    for (size_t i = 0; i < candidates.size(); ++i) {
      Candidate &c = candidates[i];
      if (c.form)
        continue;
      if (isSame && !c.tensor.bytes.empty() && !c.isConstant) {
        problems += describe(i);
        continue;
      }
      std::string problem;
      c.form = byFacts(matcher, i, problem);
      problems += problem;
    }
    if (hasValues)
      report.comparison = verdict(isSame, agree, all);
    if (!problems.empty())
      return emitError(loc) << options.weights << ": weights do not fit the graph"
                            << (hasValues ? " (" + report.comparison + ")" : "") << ":" << problems << wayOut();
    if (failed(checkTies(matcher)))
      return failure();
    rewrite(matcher);
    return success();
  }

  static std::string verdict(bool isSame, unsigned agree, unsigned all) {
    if (isSame)
      return formatv("the same checkpoint: {0} of {1} tensors agree", agree, all);
    return formatv("another checkpoint than the graph was exported from: {0} of {1} tensors agree; what is folded "
                   "follows from the graph and config.json",
                   agree, all);
  }

  /// A tensor that the graph has once cannot stand for two of the checkpoint that differ.
  LogicalResult checkTies(WeightMatcher &matcher) {
    for (auto [c, parameter] : llvm::zip(candidates, emitter.parameters()))
      for (const std::string &tied : parameter.tied) {
        auto other = matcher.indexOf(tied), own = matcher.indexOf(c.form->pieces[0].tensor);
        if (!other || !own || *other == *own || matcher[*other].bytes == matcher[*own].bytes)
          continue;
        return emitError(loc) << options.weights << ": the graph has one tensor for " << parameter.name << " and "
                              << tied << ", the checkpoint holds two that differ; export the model with "
                              << "tie_word_embeddings false, or compile the Hugging Face folder itself";
      }
    return success();
  }

  void rewrite(WeightMatcher &matcher) {
    std::vector<std::pair<const Initializer *, std::string>> order;
    for (const Parameter &parameter : emitter.parameters())
      order.push_back({parameter.initializer, parameter.name});
    size_t index = 0;
    std::set<std::string> used;
    for (auto [i, c] : llvm::enumerate(candidates)) {
      std::vector<Shape> shapes;
      for (const WeightForm::Piece &piece : c.form->pieces) {
        shapes.push_back(matcher[*matcher.indexOf(piece.tensor)].shape);
        used.insert(piece.tensor);
      }
      for (const std::string &tied : emitter.parameters()[index].tied)
        used.insert(tied);
      // A parameter that is replaced leaves its place to the next one.
      if (!applyForm(emitter, index, *c.form, shapes))
        ++index;
    }
    std::string unused;
    unsigned count = 0;
    for (const TensorView &tensor : checkpoint)
      if (!used.count(tensor.name) && !llvm::StringRef(tensor.name).ends_with("inv_freq") && ++count <= 3)
        unused += (unused.empty() ? "" : ", ") + tensor.name;
    if (count)
      report.notes.push_back(formatv("{0} tensors of the checkpoint are read by nothing in the graph: {1}{2}", count,
                                     unused, count > 3 ? ", ..." : ""));
  }

  Emitter &emitter;
  const Model &model;
  const ImportOptions &options;
  ImportReport &report;
  WeightFacts facts;
  InitializerBytes bytes;
  Location loc;
  std::vector<TensorView> checkpoint;
  std::vector<Candidate> candidates; ///< of the emitter's parameters, in their order
};

} // namespace

LogicalResult explainWeights(Emitter &emitter, const Model &model, const Names &names, const ImportOptions &options,
                             llvm::StringRef family, ImportReport &report) {
  return Explanation(emitter, model, names, options, family, report).run();
}

} // namespace ztc::importer
