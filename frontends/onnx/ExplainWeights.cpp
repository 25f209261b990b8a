#include "frontends/onnx/ExplainWeights.h"
#include "frontends/onnx/ExpertNames.h"
#include "frontends/onnx/MatchCache.h"
#include "frontends/onnx/MatchWeights.h"
#include "frontends/onnx/StoredTensors.h"
#include "frontends/onnx/UnreadTensors.h"
#include "frontends/onnx/WeightFacts.h"
#include "frontends/onnx/Weights.h"
#include "frontends/onnx/WriteBack.h"
#include "runtime/Core/ShapeText.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Parallel.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace mlir;
using llvm::formatv;

namespace ztc::importer {
namespace {

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
  Explanation(Emitter &emitter, const Model &model, const Names &names, const FoundParameters &found,
              const ImportOptions &options, llvm::StringRef family, ImportReport &report)
      : emitter(emitter), model(model), names(names), found(found), options(options), report(report),
        facts(model, names, family), loc(UnknownLoc::get(emitter.function().getContext())) {}

  LogicalResult run() {
    StatusOr<SafetensorsCollection> opened = SafetensorsCollection::open(options.weights);
    if (!opened.isOk())
      return emitError(loc) << opened.status().message();
    checkpoint = floatTensorsOf(*opened);
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
      candidate.tensor = viewOf(model, *parameter.initializer);
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
    std::string key =
        formatv("{0}{1}{2}{3}{4}{5}{6}{7}{8}{9}", rules.transpose, rules.cast, rules.shift, rules.scale, rules.join,
                rules.range, rules.stack, rules.reshape, rules.byValue, facts.hasShiftedNorms());
    for (const Parameter &parameter : emitter.parameters())
      key += "\n" + parameter.name + " " + parameter.initializer->name;
    key = matchKey(paths, key);
    if (recall(matcher, readMatches(key)))
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

  bool recall(const WeightMatcher &matcher, const nlohmann::json &kept) {
    if (!kept.is_array() || kept.size() != candidates.size())
      return false;
    std::vector<Candidate> recalled = candidates;
    for (auto [c, json] : llvm::zip(recalled, kept)) {
      if (!json.is_object() || !json.contains("form") || !json.contains("constant") || !json["constant"].is_boolean())
        return false;
      c.isConstant = json["constant"].get<bool>();
      if (!json["form"].is_null()) {
        c.form = WeightForm::fromJson(json["form"]);
        if (!c.form || !matcher.fits(*c.form))
          return false;
      }
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

  /// The graph's own files that are not there: with their values, what has lost its name could be found.
  std::string missingFiles() const {
    std::set<std::string> missing;
    for (auto [c, parameter] : llvm::zip(candidates, emitter.parameters()))
      if (c.tensor.bytes.empty() && c.named.empty() && parameter.initializer->isExternal)
        missing.insert((llvm::sys::path::parent_path(model.path) + "/" + parameter.initializer->location).str());
    std::string text;
    for (const std::string &file : missing)
      text += "\nwhat is missing has lost its name; put the graph's own data " + file +
              " back beside it, and it is found by value";
    return text;
  }

  static llvm::StringRef wayOut() {
    return "\nexport again with optimize=False, or compile the Hugging Face folder itself";
  }

  /// Why a matrix that stands in the place of `other` may be a multiple of it; "" where another state of the same
  /// training shows that it is not.
  static std::string doubt(const Candidate &c, const TensorView &other, const Parameter &parameter) {
    Likeness likeness = c.tensor.bytes.empty() ? Likeness() : likenessOf(c.tensor, other, parameter.transposed);
    bool isAlike = likeness.share > 0.8;
    if (isAlike && likeness.factor > 0.8 && likeness.factor < 1.25)
      return "";
    std::string place =
        "\n  " + parameter.name + " ('" + parameter.initializer->name + "') " + shapeText(c.tensor.shape);
    if (isAlike)
      return place + ": is about " + numberText(likeness.factor) + " times '" + other.name +
             "' of the checkpoint: a factor was folded into it that another checkpoint does not tell exactly";
    return place + ": its name is lost and its values are others: whether a factor was folded into it, only a "
                   "config.json with a model_type could tell";
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
      if (fact.kind == WeightFact::Kind::Likely) {
        problem = doubt(c, other, parameter);
        if (!problem.empty())
          return std::nullopt;
      }
      WeightForm form = WeightForm::of(other.name, parameter.transposed);
      form.shift = fact.kind == WeightFact::Kind::OnePlus ? 1 : 0;
      return form;
    }
    // The same numbers in other dimensions, where no more than sizes of 1 tell them apart; the matrices of experts.
    for (unsigned index : c.named)
      if (withoutOnes(matcher[index].shape) == withoutOnes(c.tensor.shape) && !parameter.transposed) {
        WeightForm form = WeightForm::of(matcher[index].name, false);
        form.isReshaped = true;
        return form;
      }
    if (std::optional<WeightForm> form = stackedExperts(parameter.name, c.tensor.shape, matcher))
      return form;
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
      bool isTrained = options.writeBack && options.writeBack->isTrained;
      if (isSame && !isTrained && !c.tensor.bytes.empty() && !c.isConstant) {
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
                            << (hasValues ? " (" + report.comparison + ")" : "") << ":" << problems << missingFiles()
                            << wayOut();
    if (failed(checkTies(matcher)))
      return failure();
    llvm::StringSet<> used;
    for (auto [c, parameter] : llvm::zip(candidates, emitter.parameters())) {
      for (const WeightForm::Piece &piece : c.form->pieces)
        used.insert(piece.tensor);
      for (const std::string &tied : parameter.tied)
        used.insert(tied);
    }
    if (std::string problem = noteUnread(checkpoint, used, {names, model, found, options.freeze}, report);
        !problem.empty())
      return emitError(loc) << options.weights << ": " << problem;
    if (options.writeBack)
      for (auto [c, parameter] : llvm::zip(candidates, emitter.parameters()))
        options.writeBack->add(parameter, *c.form);
    rewrite(matcher);
    if (options.writeBack)
      for (const Parameter &parameter : emitter.parameters())
        options.writeBack->names.push_back(checkpointNames(parameter));
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
    size_t index = 0;
    for (auto [i, c] : llvm::enumerate(candidates)) {
      std::vector<Shape> shapes;
      for (const WeightForm::Piece &piece : c.form->pieces)
        shapes.push_back(matcher[*matcher.indexOf(piece.tensor)].shape);
      // A parameter that is replaced leaves its place to the next one.
      if (!applyForm(emitter, index, *c.form, shapes))
        ++index;
    }
  }

  Emitter &emitter;
  const Model &model;
  const Names &names;
  const FoundParameters &found;
  const ImportOptions &options;
  ImportReport &report;
  WeightFacts facts;
  Location loc;
  std::vector<TensorView> checkpoint;
  std::vector<Candidate> candidates; ///< of the emitter's parameters, in their order
};

} // namespace

LogicalResult explainWeights(Emitter &emitter, const Model &model, const Names &names, const FoundParameters &found,
                             const ImportOptions &options, llvm::StringRef family, ImportReport &report) {
  return Explanation(emitter, model, names, found, options, family, report).run();
}

} // namespace ztc::importer
