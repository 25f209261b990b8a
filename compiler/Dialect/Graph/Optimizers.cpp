#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
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
  return {{newM, newV}, terms.decayed - terms.hyper(StepParameter::StepSize) * newM / denominator};
}

std::map<std::string, OptimizerRule, std::less<>> &rules() {
  static std::map<std::string, OptimizerRule, std::less<>> all{
      {"adamw", {"adamw", {"exp_avg", "exp_avg_sq"}, 18, adamw}}};
  return all;
}

} // namespace

LogicalResult registerOptimizer(OptimizerRule rule) {
  auto refuse = [&](const Twine &why) {
    llvm::errs() << "ztc: cannot register the optimizer '" << rule.name << "': " << why << "\n";
    return failure();
  };
  if (rule.name.empty() || !rule.update)
    return refuse("it has no name or no rule");
  for (const auto &[index, state] : llvm::enumerate(rule.states))
    if (state != (index == 0 ? "exp_avg" : "exp_avg_sq") || index > 1)
      return refuse("state " + Twine(index) + " is called '" + state +
                    "'; the first is exp_avg, the second exp_avg_sq");
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

SmallVector<std::string> optimizerNames() {
  SmallVector<std::string> names;
  for (const auto &[name, rule] : rules())
    names.push_back(name);
  return names;
}

} // namespace ztc::graph
