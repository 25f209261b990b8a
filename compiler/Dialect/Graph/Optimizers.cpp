#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace mlir;

namespace ztc::graph {
namespace {

/// Loshchilov and Hutter 2019, operations in PyTorch's order.
OptimizerUpdate adamw(const OptimizerTerms &terms) {
  const Expr &g = terms.gradient, &m = terms.states[0], &v = terms.states[1];
  Expr newM = m + (g - m) * terms.hyper(StepParameter::OneMinusBeta1);
  Expr newV = v * terms.hyper(StepParameter::Beta2) + terms.hyper(StepParameter::OneMinusBeta2) * g * g;
  Expr denominator =
      sqrt(newV) * terms.hyper(StepParameter::InverseSqrtCorrection2) + terms.hyper(StepParameter::Epsilon);
  return {{newM, newV}, terms.decayed() - terms.hyper(StepParameter::StepSize) * newM / denominator};
}

/// Chen et al. 2023, algorithm 2: u = sign(beta1 m + (1 - beta1) g); p' = p - lr (u + decay p); m' = beta2 m +
/// (1 - beta2) g.
OptimizerUpdate lion(const OptimizerTerms &terms) {
  const Expr &g = terms.gradient, &m = terms.states[0];
  Expr newM = terms.hyper(StepParameter::Beta2) * m + terms.hyper(StepParameter::OneMinusBeta2) * g;
  Expr mixed = terms.hyper(StepParameter::Beta1) * m + terms.hyper(StepParameter::OneMinusBeta1) * g;
  Expr zero = zeroLike(mixed), rate = terms.hyper(StepParameter::LearningRate);
  Expr change = select(mixed > zero, rate, select(mixed < zero, -rate, zero));
  return {{newM}, terms.decayed() - change};
}

/// torch.optim.SGD with dampening 0: weight decay is part of the gradient; b' = momentum b + g, which at the first step
/// is g; p' = p - lr b', or with Nesterov's momentum p - lr (g + momentum b').
OptimizerUpdate sgd(const OptimizerTerms &terms) {
  Expr g = terms.decayedGradient(), momentum = terms.hyper(StepParameter::Momentum);
  Expr newBuffer = momentum * terms.states[0] + g;
  Expr isNesterov = terms.hyper(StepParameter::Nesterov) > zeroLike(g);
  Expr step = select(isNesterov, g + momentum * newBuffer, newBuffer);
  return {{newBuffer}, terms.parameter - terms.hyper(StepParameter::LearningRate) * step};
}

/// torch.optim.Muon (Jordan et al. 2024), the last part: p' = p (1 - lr decay) - lr factor O, where O is the
/// orthogonalized direction. Zeros of O count as +0: a rank that does not compute a matrix adds zeros to it, which
/// loses their sign.
OptimizerUpdate muon(const OptimizerTerms &terms) {
  const Expr zero = zeroLike(terms.gradient);
  const Expr direction = select(terms.gradient == zero, zero, terms.gradient);
  return {{}, terms.decayed() - terms.hyper(StepParameter::LearningRate) * terms.changeFactor() * direction};
}

std::map<std::string, OptimizerRule, std::less<>> &rules() {
  static std::map<std::string, OptimizerRule, std::less<>> all{
      {"adamw", {"adamw", {"exp_avg", {"exp_avg_sq", /*isSigned=*/false}}, 18, adamw}},
      {"lion", {"lion", {"exp_avg"}, 11, lion, /*isContinuous=*/false}},
      {"muon", {"muon", {"momentum_buffer"}, 7, muon, /*isContinuous=*/true, /*orthogonalizes=*/true}},
      {"sgd", {"sgd", {"momentum_buffer"}, 9, sgd}}};
  return all;
}

/// Why a state may not have this name; empty: it may.
std::string nameFault(StringRef name) {
  if (name.empty() || !llvm::all_of(name, [](char c) { return llvm::isLower(c) || llvm::isDigit(c) || c == '_'; }))
    return "a state has the name '" + name.str() + "'; expected lower-case letters, digits and _";
  for (StringRef other : {"model", "parameter", "gradient", "reduced_gradient", "accumulated_gradient", "master"})
    if (name == other)
      return "a state has the name '" + name.str() + "', which another value of a parameter has";
  return {};
}

} // namespace

Expr OptimizerTerms::decayed() const {
  return whereDecayed([&] { return parameter * hyper(StepParameter::DecayFactor); }, parameter);
}

Expr OptimizerTerms::decayedGradient() const {
  return whereDecayed([&] { return gradient + hyper(StepParameter::WeightDecay) * parameter; }, gradient);
}

const OptimizerState *OptimizerRule::state(StringRef stateName) const {
  const auto *found = llvm::find_if(states, [&](const OptimizerState &state) { return state.name == stateName; });
  return found == states.end() ? nullptr : found;
}

LogicalResult registerOptimizer(OptimizerRule rule) {
  auto refuse = [&](const Twine &why) {
    llvm::errs() << "ztc: cannot register the optimizer '" << rule.name << "': " << why << "\n";
    return failure();
  };
  if (rule.name.empty() || !rule.update)
    return refuse("it has no name or no rule");
  llvm::StringSet<> names;
  for (const OptimizerState &state : rule.states) {
    if (std::string fault = nameFault(state.name); !fault.empty())
      return refuse(fault);
    if (!names.insert(state.name).second)
      return refuse("two states have the name '" + Twine(state.name) + "'");
  }
  if (findOptimizer(rule.name))
    return refuse("there is one of that name");
  std::string name = rule.name;
  rules().emplace(std::move(name), std::move(rule));
  return success();
}

const OptimizerRule *findOptimizer(StringRef name) {
  auto found = rules().find(name.str());
  return found == rules().end() ? nullptr : &found->second;
}

const OptimizerRule &optimizerOf(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(kOptimizer);
  const OptimizerRule *rule = name ? findOptimizer(name.getValue()) : nullptr;
  return rule ? *rule : *findOptimizer("adamw");
}

const OptimizerRule &optimizerOf(ModuleOp module, bool isMatrix) {
  const OptimizerRule &rule = optimizerOf(module);
  return rule.orthogonalizes && !isMatrix ? *findOptimizer("adamw") : rule;
}

SmallVector<OptimizerState> statesOf(ModuleOp module) {
  SmallVector<OptimizerState> states;
  for (bool isMatrix : {false, true})
    for (const OptimizerState &state : optimizerOf(module, isMatrix).states)
      if (llvm::none_of(states, [&](const OptimizerState &other) { return other.name == state.name; }))
        states.push_back(state);
  return states;
}

const OptimizerState *findState(StringRef name) {
  const OptimizerState *found = nullptr;
  for (const auto &[optimizer, rule] : rules())
    if (const OptimizerState *state = rule.state(name); state && (!found || !state->isSigned))
      found = state;
  return found;
}

SmallVector<std::string> optimizerNames() {
  SmallVector<std::string> names;
  for (const auto &[name, rule] : rules())
    names.push_back(name);
  return names;
}

} // namespace ztc::graph
