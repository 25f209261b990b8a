#include "compiler/Verification/StepVerifier.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Detached.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

using namespace mlir;

namespace ztc::verification {
namespace {

/// Sums in another order, in double.
constexpr double kSameMeaning = 1e-9;
/// What rounding to 8-bit codes changes of a state.
constexpr double kBlockState = 0.1;
/// What Richardson's extrapolation of central differences leaves where a model has kinks (ReLU, the largest k).
constexpr double kFiniteDifference = 1e-4;
/// Longest time that is spent on finite differences of single parameters; then they are moved all at once.
constexpr double kSecondsOfDifferences = 20;
constexpr double kStep = 0x1p-14, kSmallestStep = 0x1p-24;
/// Steps of h and h / 2 agree to this part of the gradient's norm: what is left is below kFiniteDifference.
constexpr double kConverged = 3e-4;

/// What is interpreted, in the module's order.
std::vector<std::string> functionsOf(ModuleOp module) {
  std::vector<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      names.push_back(function.getName().str());
  return names;
}

/// The function and everything beside the functions: buckets, the mesh.
std::vector<OperationFingerPrint> fingerprintOf(ModuleOp module, func::FuncOp function) {
  std::vector<OperationFingerPrint> prints{OperationFingerPrint(function)};
  for (Operation &op : *module.getBody())
    if (!isa<func::FuncOp>(op))
      prints.emplace_back(&op, /*includeNested=*/false);
  return prints;
}

/// Of all sequences.
double lossOf(const NamedValues &values) {
  const Tensor &losses = values.at("loss");
  return std::accumulate(losses.reals.begin(), losses.reals.end(), 0.0);
}

/// |a - b| / |b| over all gradients together.
double gradientError(const NamedValues &values, const NamedValues &expected) {
  double difference = 0, norm = 0;
  for (const auto &[name, tensor] : expected) {
    if (name == "loss") // a sum over tokens: its errors are small
      continue;
    auto found = values.find(name);
    double size = 0;
    for (double x : tensor.reals)
      size += x * x;
    const double error = found == values.end() ? 0 : relativeError(found->second, tensor);
    difference += error * error * size;
    norm += size;
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

/// How far a value of @update may be off where only what is stored is rounded: what has two bytes goes to one of its
/// two neighbours, masters have 32 bits.
double limitOfUpdate(const NamedValues &values, StringRef name) {
  const bool isParameter = name.starts_with("parameter ");
  const auto found = values.find(name.str());
  if (found == values.end() || (!isParameter && !graph::findState(name.split(' ').first)))
    return kSameMeaning;
  const bool isNarrow = isStoredNarrow(found->second.elementType);
  // The largest of 256 codes is as wide as 7 % of what it stands for, most are finer.
  if (!found->second.elementType.isIntOrFloat())
    return kBlockState;
  return isNarrow ? 2 * unitOf(StoragePrecision::Bf16) : isParameter ? 1e-7 : kSameMeaning;
}

/// What differs between two sets of values, worst first; empty where nothing does.
std::string describeDifference(const NamedValues &values, const NamedValues &expected,
                               function_ref<double(StringRef)> limit) {
  for (const auto &[name, tensor] : expected)
    if (!values.count(name))
      return "'" + name + "' is gone";
  std::vector<std::pair<double, std::string>> different;
  for (const auto &[name, tensor] : expected)
    if (double error = relativeError(values.at(name), tensor); !(error <= limit(name)))
      different.emplace_back(error, name);
  if (different.empty())
    return {};
  llvm::sort(different,
             [](const auto &a, const auto &b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::string text;
  if (auto loss = expected.find("loss");
      loss != expected.end() && llvm::any_of(different, [](const auto &entry) { return entry.second == "loss"; }))
    text = llvm::formatv("the loss was {0:e6} and is {1:e6}; ", lossOf(expected), lossOf(values));
  text += llvm::formatv("{0} of {1} values differ: ", different.size(), expected.size());
  constexpr size_t shown = 3;
  for (size_t i = 0; i < std::min(shown, different.size()); ++i)
    text += llvm::formatv("{0}{1} (relative {2:e1})", i ? ", " : "", different[i].second, different[i].first);
  if (different.size() > shown)
    text += ", ...";
  return text;
}

/// "; ops of plugins in it: sample.gated_silu", or nothing: where to look first.
std::string pluginOps(ModuleOp module, StringRef function) {
  std::set<std::string> names;
  if (auto found = module.lookupSymbol<func::FuncOp>(function))
    found.walk([&](Operation *op) {
      if (!isa_and_nonnull<graph::GraphDialect, dist::DistDialect, func::FuncDialect>(op->getDialect()))
        names.insert(op->getName().getStringRef().str());
    });
  return names.empty() ? "" : "; ops of plugins in it: " + llvm::join(names, ", ");
}

} // namespace

double unitOf(StoragePrecision precision) {
  switch (precision) {
  case StoragePrecision::Fp32:
    return 0x1p-24;
  case StoragePrecision::Bf16:
    return 0x1p-8;
  case StoragePrecision::Fp16:
    return 0x1p-11;
  case StoragePrecision::Fp8:
    // Codes round each factor of a product to 2^-4, or 2^-3, at random: of a sum of many products this is left.
    return 0x1p-7;
  }
  llvm_unreachable("every precision is above");
}

StepVerifier::StepVerifier(ModuleOp module, bool statesInBlocks) : inputs(module) {
  inputs.statesInBlocks = statesInBlocks;
  (void)afterPass(module, Keeps::Meaning);
}

size_t StepVerifier::values() const {
  size_t count = 0;
  for (const auto &entry : expected)
    count += entry.getValue().size();
  return count;
}

std::vector<std::string> StepVerifier::gone(ModuleOp module) const {
  std::vector<std::string> names;
  for (const auto &entry : expected)
    if (!module.lookupSymbol<func::FuncOp>(entry.getKey()))
      names.push_back(entry.getKey().str());
  return names;
}

void StepVerifier::addGap(std::string text) {
  if (!llvm::is_contained(gaps, text))
    gaps.push_back(std::move(text));
}

std::optional<NamedValues> StepVerifier::evaluate(ModuleOp module, StringRef function, Precision precision,
                                                  unsigned world) {
  failure.clear();
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && failure.empty())
      failure = diagnostic.str();
    return success();
  });
  // Ranks are threads; passes run on one.
  MLIRContext &context = *module.getContext();
  const bool threads = context.isMultithreadingEnabled();
  if (world > 1 && !threads)
    context.enableMultithreading();
  FailureOr<NamedValues> values = evaluateStep(module, function, inputs, precision, world);
  if (world > 1 && !threads)
    context.disableMultithreading();
  if (failed(values))
    return std::nullopt;
  NamedValues found = std::move(*values);
  return found;
}

/// Whether @microstep is the whole step.
static bool isJoined(ModuleOp module) {
  return graph::updatesInBackward(module) && module.lookupSymbol<func::FuncOp>("microstep") &&
         !module.lookupSymbol<func::FuncOp>("update");
}

std::optional<NamedValues> StepVerifier::evaluateJoined(ModuleOp module, unsigned world) {
  std::optional<NamedValues> step = evaluate(module, "microstep", Precision::F64, world);
  if (!step)
    return std::nullopt;
  inputs.give([&step](StringRef role, StringRef name, RankedTensorType type, unsigned) -> std::optional<Tensor> {
    auto gradient = role == "gradient" ? step->find(("gradient " + name).str()) : step->end();
    if (gradient == step->end())
      return std::nullopt;
    Tensor tensor(type);
    tensor.reals = gradient->second.reals;
    return tensor;
  });
  std::optional<NamedValues> updated = evaluate(module, "update", Precision::F64, world);
  inputs.give(nullptr);
  if (!updated)
    return std::nullopt;
  updated->insert({"loss", step->at("loss")});
  return updated;
}

std::optional<StepDifference> StepVerifier::compareFunction(ModuleOp module, StringRef name, Keeps keeps,
                                                            ModuleOp before) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  // Where the two become one, it does what they did one after the other.
  if (name == "microstep" && before && isJoined(module) && !isJoined(before)) {
    for (unsigned world = 1; world <= kMostRanks; ++world)
      if (std::optional<NamedValues> both = evaluateJoined(before, world))
        (world == 1 ? expected : expectedOnRanks[world]).insert_or_assign(name, std::move(*both));
    expected.erase("update");
  }
  const bool updates = name == "update" || (name == "microstep" && isJoined(module));
  std::vector<OperationFingerPrint> print = fingerprintOf(module, function);
  auto seen = lastSeen.find(name);
  if (seen != lastSeen.end() && seen->second == print)
    return std::nullopt;
  std::optional<NamedValues> values = evaluate(module, name, Precision::F64, 1);
  if (!values) // half way through a phase; if it stays so, the end of the phase says it
    return std::nullopt;
  lastSeen.insert_or_assign(name, std::move(print));
  auto reference = expected.find(name);
  if (reference == expected.end() || keeps == Keeps::Changes) {
    if (name == "eval" && keeps == Keeps::Changes && reference != expected.end() && !lossChecked) {
      lossChecked = true;
      addGap("the loss against the cross entropy of the logits: a pass changes the loss on purpose");
    }
    expected.insert_or_assign(name, std::move(*values));
    for (auto &ranks : expectedOnRanks)
      ranks.erase(name);
    return std::nullopt;
  }
  auto limit = [&](StringRef value) { return updates ? limitOfUpdate(*values, value) : kSameMeaning; };
  std::string text = describeDifference(*values, reference->second, limit);
  if (!text.empty())
    return StepDifference{("@" + name + ": " + text).str()};
  if (keeps != Keeps::Bits || !before)
    return std::nullopt;
  std::optional<NamedValues> rounded = evaluate(module, name, Precision::F32, 1),
                             roundedBefore = evaluate(before, name, Precision::F32, 1);
  if (rounded && roundedBefore)
    text = describeDifference(*rounded, *roundedBefore, [](StringRef) { return 0; });
  if (text.empty())
    return std::nullopt;
  return StepDifference{("@" + name + ", with its rounding: " + text).str()};
}

std::optional<StepDifference> StepVerifier::afterPass(ModuleOp module, Keeps keeps, ModuleOp before) {
  inputs.clips = !graph::updatesInBackward(module);
  for (const std::string &name : functionsOf(module))
    if (std::optional<StepDifference> difference = compareFunction(module, name, keeps, before))
      return difference;
  return std::nullopt;
}

std::optional<StepDifference> StepVerifier::compareOnRanks(ModuleOp module, StringRef name, unsigned world) {
  std::optional<NamedValues> values = evaluate(module, name, Precision::F64, world);
  if (!values) {
    addGap(("@" + name + " on " + Twine(world) + " ranks: " + failure).str());
    return std::nullopt;
  }
  auto [before, isNew] = expectedOnRanks[world].try_emplace(name);
  if (isNew) {
    before->second = std::move(*values);
    return std::nullopt;
  }
  auto limit = [&](StringRef value) {
    return name != "update" && !(name == "microstep" && isJoined(module))
               ? kSameMeaning
               : std::max(1e-7, limitOfUpdate(*values, value));
  };
  std::string text = describeDifference(*values, before->second, limit);
  if (text.empty())
    return std::nullopt;
  return StepDifference{("@" + name + " on " + Twine(world) + " ranks: " + text).str()};
}

std::optional<StepDifference> StepVerifier::compareRounding(ModuleOp module, StoragePrecision precision) {
  auto reference = expected.find("microstep");
  if (reference == expected.end() || isJoined(module)) // what rounding costs was seen before
    return std::nullopt;
  std::optional<NamedValues> rounded = evaluate(module, "microstep", Precision::F32, 1);
  if (!rounded)
    return std::nullopt; // the same gap as without rounding
  // Phase `shard` makes codes of what phase `precision` has stored in 16 bits: it is measured anew.
  const bool makesCodes = module.walk([](graph::QuantizeFp8Op) { return WalkResult::interrupt(); }).wasInterrupted();
  if (makesCodes && !hasCodes)
    rounding = -1;
  hasCodes = makesCodes;
  const double error = gradientError(*rounded, reference->second), unit = unitOf(precision);
  // A step of some dozen roundings in a row, as they were made by moving all weights a little where the model makes
  // more of them; later phases add none of their own.
  double limit = std::max(2 * rounding + unitOf(StoragePrecision::Fp32), sensitivity);
  if (rounding < 0) {
    inputs.moveAlong("", unit / 4);
    std::optional<NamedValues> moved = evaluate(module, "microstep", Precision::F64, 1);
    inputs.moveAlong("", 0);
    sensitivity = moved ? gradientError(*moved, reference->second) : 0;
    limit = std::max(32 * unit, 4 * sensitivity);
  }
  if (!(error <= limit))
    return StepDifference{llvm::formatv("@microstep with its rounding in {0}: gradients are off by {1:e1} "
                                        "(relative to what is computed without rounding), expected at most {2:e1}",
                                        wordOf(precision), error, limit)};
  if (rounding < 0)
    rounding = error;
  return std::nullopt;
}

std::optional<StepDifference> StepVerifier::checkLossOfLogits(ModuleOp module) {
  auto forward = expected.find("forward"), eval = expected.find("eval");
  auto function = module.lookupSymbol<func::FuncOp>("eval");
  if (forward == expected.end() || eval == expected.end() || !function || !forward->second.count("logits") ||
      !eval->second.count("loss"))
    return std::nullopt;
  SmallVector<unsigned> arguments = graph::argumentsWithRole(function, graph::Role::Targets);
  if (arguments.size() != 1)
    return std::nullopt;
  Tensor targets = inputs.value("targets", "", cast<RankedTensorType>(function.getArgumentTypes()[arguments[0]]));
  std::optional<Tensor> weights;
  if (SmallVector<unsigned> found = graph::argumentsWithRole(function, graph::Role::LossWeights); !found.empty())
    weights = inputs.value("loss_weights", "", cast<RankedTensorType>(function.getArgumentTypes()[found[0]]));
  const Tensor &logits = forward->second.at("logits");
  const int64_t vocabulary = logits.shape.back();
  double sum = 0;
  for (auto [row, target] : llvm::enumerate(targets.integers)) {
    if (target < 0 || target >= vocabulary)
      continue;
    const double *first = logits.reals.data() + int64_t(row) * vocabulary;
    const double largest = *std::max_element(first, first + vocabulary);
    double total = 0;
    for (int64_t i = 0; i < vocabulary; ++i)
      total += std::exp(first[i] - largest);
    sum += (weights ? weights->reals[row] : 1.0) * (largest + std::log(total) - first[target]);
  }
  const double loss = lossOf(eval->second);
  if (std::abs(loss - sum) <= kSameMeaning * std::max(1.0, std::abs(sum)))
    return std::nullopt;
  return StepDifference{
      llvm::formatv("@eval: the loss is {0:e9}; the cross entropy of @forward's logits is {1:e9}", loss, sum)};
}

/// Names of parameters that a value is computed from which the gradient takes as a constant.
static llvm::StringSet<> feedDetached(func::FuncOp function) {
  llvm::StringSet<> names;
  SmallVector<Value> todo;
  llvm::DenseSet<Value> seen;
  function.walk([&](Operation *op) {
    if (op->hasAttr(graph::kDetached))
      llvm::append_range(todo, op->getOperands());
  });
  while (!todo.empty()) {
    Value value = todo.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (Operation *op = value.getDefiningOp()) {
      llvm::append_range(todo, op->getOperands());
      continue;
    }
    const unsigned index = cast<BlockArgument>(value).getArgNumber();
    if (graph::roleOf(function, index) == graph::Role::Parameter && !graph::isFrozen(function, index))
      names.insert(graph::argString(function, index, graph::kName));
  }
  return names;
}

std::optional<StepDifference> StepVerifier::wrongGradient(ModuleOp module) {
  auto found = expected.find("microstep");
  auto function = module.lookupSymbol<func::FuncOp>("microstep");
  if (found == expected.end() || !function || !expected.count("eval"))
    return std::nullopt;
  const NamedValues &microstep = found->second;
  // What drops at random has another loss than @eval: its gradients are those of its own.
  const bool drops = !graph::argumentsWithRole(function, graph::Role::FirstToken).empty();
  const StringRef measured = drops ? "microstep" : "eval";
  const double loss = drops ? microstep.at("loss").reals.front() : lossOf(expected["eval"]);
  if (double difference = std::abs(microstep.at("loss").reals.front() - loss);
      !(difference <= kSameMeaning * std::max(1.0, std::abs(loss))))
    return StepDifference{
        llvm::formatv("@microstep: the loss is {0:e9}; @eval gives {1:e9}", microstep.at("loss").reals.front(), loss)};
  Tensor step = inputs.value("step", "", RankedTensorType::get({16}, Float64Type::get(module.getContext())));
  const double inverseCount = step.reals.front();

  auto lossAt = [&](StringRef parameter, double by) -> std::optional<double> {
    inputs.moveAlong(parameter, by);
    std::optional<NamedValues> values = evaluate(module, measured, Precision::F64, 1);
    inputs.moveAlong("", 0);
    if (!values)
      return std::nullopt;
    return lossOf(*values);
  };
  // (4 D(h/2) - D(h)) / 3, with central differences D: Richardson, 1911.
  auto slopeAlong = [&](StringRef parameter, double norm) -> std::optional<double> {
    auto central = [&](double h) -> std::optional<double> {
      std::optional<double> above = lossAt(parameter, h), below = lossAt(parameter, -h);
      return above && below ? std::optional((*above - *below) / (2 * h)) : std::nullopt;
    };
    // Where the loss bends within a step the two differ: a smaller one then.
    double h = kStep;
    while (h >= kSmallestStep) {
      std::optional<double> coarse = central(h), fine = central(h / 2);
      if (!coarse || !fine)
        return std::nullopt;
      if (std::abs(*fine - *coarse) * inverseCount <= kConverged * norm)
        return (4 * *fine - *coarse) / 3 * inverseCount;
      h /= 16;
    }
    addGap("the gradient of " + (parameter.empty() ? "the parameters" : parameter.str()) +
           " against finite differences: the loss bends too much");
    return std::nullopt;
  };
  struct Gradient {
    std::string parameter;
    double along = 0, norm = 0;
  };
  std::vector<Gradient> gradients;
  Gradient all;
  for (const auto &[name, gradient] : microstep) {
    StringRef parameter(name);
    if (!parameter.consume_front("gradient "))
      continue;
    Tensor direction = StepInputs::direction(parameter, gradient.type());
    Gradient one{parameter.str()};
    for (auto [g, d] : llvm::zip_equal(gradient.reals, direction.reals)) {
      one.along += g * d;
      one.norm += g * g;
    }
    all.along += one.along;
    all.norm += one.norm;
    one.norm = std::sqrt(one.norm);
    gradients.push_back(std::move(one));
  }
  all.norm = std::sqrt(all.norm);
  // Moved, these would move what their gradient takes as a constant.
  const llvm::StringSet<> held = feedDetached(function);
  if (!held.empty()) {
    addGap(llvm::formatv("the gradients of {0} parameters against finite differences: they make norms that are "
                         "constants to the gradient",
                         held.size())
               .str());
    llvm::erase_if(gradients, [&](const Gradient &gradient) { return held.contains(gradient.parameter); });
  }
  // A parameter that nobody trains must not move when all do.
  const auto begin = std::chrono::steady_clock::now();
  if (!lossAt("", 0)) {
    addGap("gradients against finite differences: " + failure);
    return std::nullopt;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  size_t frozen = 0;
  for (unsigned i : graph::argumentsWithRole(function, graph::Role::Parameter))
    frozen += graph::isFrozen(function, i);
  const bool each = 4 * seconds * double(gradients.size()) <= kSecondsOfDifferences;
  if (!each && (frozen || !held.empty())) {
    addGap("gradients against finite differences: the model is too large to move its parameters one by one");
    return std::nullopt;
  }
  if (!each) {
    gradients = {all};
    addGap("gradients of single parameters against finite differences (the model is large: all were moved at once)");
  }
  for (const Gradient &gradient : gradients) {
    std::optional<double> slope = slopeAlong(gradient.parameter, gradient.norm + 1e-6 * all.norm);
    if (!slope)
      continue;
    // A gradient that is zero in theory is what cancels in practice: held against the whole gradient.
    if (std::abs(*slope - gradient.along) <= kFiniteDifference * gradient.norm + 1e-9 * all.norm)
      continue;
    return StepDifference{
        llvm::formatv("@microstep: the gradient of {0} is not the derivative of @{4}'s loss: along a random direction "
                      "it is {1:e6}, finite differences give {2:e6}{3}",
                      gradient.parameter.empty() ? "the parameters" : gradient.parameter, gradient.along, *slope,
                      pluginOps(module, "eval"), measured),
        /*isGradient=*/true};
  }
  return std::nullopt;
}

std::optional<StepDifference> StepVerifier::afterPhase(ModuleOp module, StoragePrecision precision) {
  if (std::optional<StepDifference> difference = afterPass(module, Keeps::Meaning))
    return difference;
  for (const std::string &name : functionsOf(module)) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    auto seen = lastSeen.find(name);
    if (seen == lastSeen.end() || seen->second != fingerprintOf(module, function)) {
      (void)evaluate(module, name, Precision::F64, 1);
      addGap("@" + name + ": " + failure);
    }
  }
  if (!lossChecked && expected.count("eval")) {
    lossChecked = true;
    if (std::optional<StepDifference> difference = checkLossOfLogits(module))
      return difference;
  }
  if (!gradientsChecked && expected.count("microstep")) {
    gradientsChecked = true;
    if (std::optional<StepDifference> difference = wrongGradient(module))
      return difference;
  }
  return onRanksAndRounded(module, precision);
}

std::optional<StepDifference> StepVerifier::onRanksAndRounded(ModuleOp module, StoragePrecision precision) {
  ranksChecked |= !module.getOps<dist::MeshOp>().empty();
  for (unsigned world = 2; world <= kMostRanks; ++world)
    for (StringRef name : {"eval", "microstep", "update"})
      if (module.lookupSymbol<func::FuncOp>(name))
        if (std::optional<StepDifference> difference = compareOnRanks(module, name, world))
          return difference;
  if (module->hasAttr(graph::kPrecision))
    return compareRounding(module, precision);
  return std::nullopt;
}

} // namespace ztc::verification
