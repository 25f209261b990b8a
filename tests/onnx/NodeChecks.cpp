#include "tests/onnx/NodeChecks.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include "frontends/onnx/Evaluator.h"
#include "frontends/onnx/ImportGraph.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Autodiff/Gradient.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "tests/unit/compiler/KernelHarness.h"
#include <cmath>
#include <random>
#include <unistd.h>

using namespace mlir;
using namespace ztc::importer;

namespace ztc::test {
namespace {

using Tensors = SmallVector<Tensor>;

/// Relative to the largest expected element, how far a result may be off: what a type resolves, with room for other
/// orders of summation.
double toleranceOf(ElementType type) {
  return type == ElementType::F16 ? 2e-3 : type == ElementType::BF16 ? 1.6e-2 : 1e-5;
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

/// "" where `got` is what the data set wants.
template <typename Get>
std::string difference(const HostTensor &want, ArrayRef<int64_t> shape, Get got, double atLeast = 0) {
  if (ArrayRef<int64_t>(want.shape) != shape)
    return "shape " + shapeText(shape) + " in place of " + shapeText(want.shape);
  double scale = 0;
  for (double x : want.reals)
    scale = std::isfinite(x) ? std::max(scale, std::fabs(x)) : scale;
  double tolerance = std::max(toleranceOf(want.type), atLeast);
  for (int64_t i = 0, n = want.count(); i < n; ++i) {
    double a = got(i), b = want.real(i);
    bool equal = want.storage() != HostTensor::Storage::Reals ? a == b
                 : std::isnan(b)                              ? std::isnan(a)
                 : std::isinf(b) ? a == b
                                 : std::fabs(a - b) <= tolerance * (std::fabs(b) + std::min(scale, 1.0));
    if (!equal)
      return "element " + std::to_string(i) + " of " + std::to_string(n) + " is " + std::to_string(a) +
             " in place of " + std::to_string(b);
  }
  return "";
}

Outcome passIf(const std::string &problem) {
  return problem.empty() ? Outcome{Outcome::Passed, ""} : Outcome{Outcome::Failed, problem};
}

std::filesystem::path scratchFile() {
  return std::filesystem::temp_directory_path() / ("ztc-node-" + std::to_string(getpid()) + ".onnx");
}

Outcome evaluate(const NodeCase &node) {
  std::string error;
  BoundModel bound = node.bind(Known::All, scratchFile(), error);
  if (!bound.model)
    return {Outcome::Failed, error};
  Liveness liveness;
  Evaluator evaluator(*bound.model, liveness, Binding{});
  for (size_t i = 0; i < bound.model->outputs.size(); ++i) {
    TensorRef value = evaluator.valueOf(bound.model->outputs[i].name);
    if (!value)
      return {Outcome::Failed, evaluator.error()};
    if (!node.expected()[i])
      continue;
    const HostTensor &want = *node.expected()[i];
    if (value->type != want.type)
      return {Outcome::Failed, "element type " + elementName(value->type).str()};
    std::string problem = difference(want, value->shape, [&](int64_t e) { return value->real(e); });
    if (!problem.empty())
      return {Outcome::Failed, "output " + std::to_string(i) + ": " + problem};
  }
  return {Outcome::Passed, ""};
}

/// Runs groups by generated code, with the tensors of the interpreter as buffers.
class GeneratedGroups {
public:
  explicit GeneratedGroups(func::FuncOp function) : function(function), module(*function.getContext()) {}

  /// Compiles all groups; false with a diagnostic where one cannot be lowered.
  bool compile() {
    bool lowered = true;
    function.walk([&](graph::FusionOp group) {
      FailureOr<LoweredGroup> result = module.addGroup(group);
      lowered &= succeeded(result);
      if (succeeded(result))
        groups[group] = std::move(*result);
    });
    if (!lowered || groups.empty())
      return lowered;
    auto images = module.emit({"x86-64-v3"});
    if (failed(images))
      return false;
    image = std::make_unique<LoadedKernels>(images->front());
    return true;
  }

  LogicalResult run(graph::FusionOp group, Operands operands, Results results) {
    const LoweredGroup &lowered = groups[group];
    std::vector<Bytes> in, out;
    for (const Tensor *operand : operands)
      in.push_back(toBytes(*operand));
    for (Type type : group->getResultTypes())
      out.push_back(toBytes(Tensor(cast<RankedTensorType>(type))));
    Bytes workspace(lowered.workspaceBytes, char(0x7f));
    for (const KernelDescription &kernel : lowered.kernels) {
      std::vector<void *> buffers;
      for (const KernelBuffer &buffer : kernel.buffers)
        buffers.push_back(buffer.kind == KernelBuffer::Kind::Operand  ? in[buffer.index].data()
                          : buffer.kind == KernelBuffer::Kind::Result ? out[buffer.index].data()
                                                                      : workspace.data());
      KernelFunction code = image->find(kernel.name);
      if (!code)
        return failure();
      code(buffers.data(), kernel.scalars.data(), 0, kernel.extent);
    }
    for (auto [i, type] : llvm::enumerate(group->getResultTypes()))
      results[i] = fromBytes(out[i], cast<RankedTensorType>(type));
    return success();
  }

private:
  func::FuncOp function;
  KernelModule module;
  llvm::DenseMap<Operation *, LoweredGroup> groups;
  std::unique_ptr<LoadedKernels> image;
};

GeneratedGroups *current = nullptr; // what the rule below runs: rules are plain functions

void addGeneratedRule(RuleTable &table) {
  table.addNamed(graph::FusionOp::getOperationName(),
                 [](Operation *op, Operands operands, Results results, Interpreter &) {
                   return current->run(cast<graph::FusionOp>(op), operands, results);
                 });
}

/// The checks that work on the graph whose floats are data.
class GraphChecks {
public:
  GraphChecks(const NodeCase &node, Known known) : node(node), known(known) {}

  /// Null where the graph cannot be imported: `problem` says why.
  bool import() {
    context.loadDialect<graph::GraphDialect, func::FuncDialect>();
    handler.emplace(&context, [this](Diagnostic &diagnostic) {
      if (problem.empty())
        problem = diagnostic.str();
      return success();
    });
    bound = node.bind(known, scratchFile(), problem);
    if (!bound.model)
      return false;
    ImportReport report;
    auto imported = importGraph(context, *bound.model, report);
    if (failed(imported))
      return false;
    module = std::move(*imported);
    for (auto [argument, value] : llvm::zip(function(*module).getArguments(), bound.inputs)) {
      Tensor tensor(cast<RankedTensorType>(argument.getType()));
      for (int64_t i = 0, n = tensor.count(); i < n; ++i)
        if (tensor.isReal())
          tensor.reals[i] = value->real(i);
        else
          tensor.integers[i] = value->integer(i);
      inputs.push_back(std::move(tensor));
    }
    return true;
  }

  Outcome interpretForward() {
    InterpreterOptions options;
    auto results = interpret(function(*module), inputs, options);
    return failed(results) ? failedWith() : passIf(compare(*results, 0));
  }

  Outcome generateForward() {
    OwningOpRef<ModuleOp> copy = module->clone();
    PassManager passes(&context);
    passes.addPass(createWriteOutRecurrences());
    populateFusePipeline(passes);
    if (failed(passes.run(*copy)))
      return failedWith();
    GeneratedGroups groups(function(*copy));
    if (!groups.compile())
      return failedWith();
    InterpreterOptions options;
    options.precision = Precision::F32;
    options.moreRules.push_back(addGeneratedRule);
    current = &groups;
    auto results = interpret(function(*copy), inputs, options);
    current = nullptr;
    return failed(results) ? failedWith() : passIf(compare(*results, 2e-5));
  }

  Outcome checkGradient();

  std::string problem;

private:
  static func::FuncOp function(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }
  Outcome failedWith() { return {Outcome::Failed, problem.empty() ? "failed without a message" : problem}; }

  std::string compare(ArrayRef<Tensor> results, double atLeast) {
    for (auto [i, result] : llvm::enumerate(results)) {
      if (!node.expected()[i])
        continue;
      std::string text = difference(
          *node.expected()[i], result.shape,
          [&](int64_t e) { return result.isReal() ? result.reals[e] : double(result.integers[e]); }, atLeast);
      if (!text.empty())
        return "output " + std::to_string(i) + ": " + text;
    }
    return "";
  }

  std::string gradientAt(func::FuncOp forward, func::FuncOp backward, const Tensors &at, std::mt19937_64 &generator);

  const NodeCase &node;
  const Known known;
  MLIRContext context;
  std::optional<ScopedDiagnosticHandler> handler;
  BoundModel bound;
  OwningOpRef<ModuleOp> module;
  Tensors inputs;
};

constexpr const char *kKink = "no point nearby where differences settle";

/// Appends one cotangent argument per float result; the function gives the gradients of its float arguments, constants
/// of zero for those that nothing depends on.
LogicalResult differentiate(func::FuncOp function) {
  Block &body = function.getBody().front();
  SmallVector<Value> wanted;
  for (BlockArgument argument : body.getArguments())
    if (isa<FloatType>(getElementTypeOrSelf(argument.getType())))
      wanted.push_back(argument);
  SmallVector<Seed> seeds;
  for (Value value : body.getTerminator()->getOperands())
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      seeds.push_back({value, body.addArgument(value.getType(), function.getLoc())});
  auto gradients = emitGradients(body, seeds, wanted);
  if (failed(gradients))
    return failure();
  OpBuilder builder(body.getTerminator());
  SmallVector<Value> results;
  for (auto [argument, gradient] : llvm::zip(wanted, *gradients)) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (!gradient)
      gradient = graph::ConstantOp::create(builder, function.getLoc(), type,
                                           DenseElementsAttr::get(type, builder.getF32FloatAttr(0)));
    results.push_back(gradient);
  }
  body.getTerminator()->setOperands(results);
  function->removeAttr(function.getArgAttrsAttrName()); // of the arguments before
  function.setFunctionType(FunctionType::get(function.getContext(), ValueRange(body.getArguments()).getTypes(),
                                             ValueRange(results).getTypes()));
  return verify(function);
}

double weightedSum(ArrayRef<Tensor> results, ArrayRef<Tensor> weights) {
  double sum = 0;
  unsigned next = 0;
  for (const Tensor &result : results) {
    if (!result.isReal())
      continue;
    for (int64_t i = 0; i < result.count(); ++i)
      if (std::isfinite(result.reals[i]))
        sum += result.reals[i] * weights[next].reals[i];
    ++next;
  }
  return sum;
}

/// Holds the derivative along one random direction per operand against central differences of two steps.
std::string GraphChecks::gradientAt(func::FuncOp forward, func::FuncOp backward, const Tensors &at,
                                    std::mt19937_64 &generator) {
  std::normal_distribution<double> normal;
  auto results = interpret(forward, at);
  if (failed(results))
    return problem;
  Tensors weights, arguments = at;
  for (const Tensor &result : *results) {
    if (!result.isReal())
      continue;
    Tensor weight = result;
    for (double &x : weight.reals)
      x = std::isfinite(x) ? normal(generator) : 0; // what is hidden by -inf has no derivative
    weights.push_back(weight);
    arguments.push_back(weight);
  }
  auto gradients = interpret(backward, arguments);
  if (failed(gradients))
    return problem;
  size_t next = 0;
  for (size_t operand = 0; operand < at.size(); ++operand) {
    if (!at[operand].isReal())
      continue;
    const Tensor &gradient = (*gradients)[next++];
    Tensor direction = at[operand];
    double predicted = 0, scale = 0;
    for (size_t i = 0; i < direction.reals.size(); ++i) {
      direction.reals[i] = std::isfinite(direction.reals[i]) ? normal(generator) : 0;
      double term = direction.reals[i] == 0 ? 0 : gradient.reals[i] * direction.reals[i];
      predicted += term;
      scale += std::fabs(term);
    }
    auto quotient = [&](double step) {
      double value[2];
      for (int side : {0, 1}) {
        Tensors moved = at;
        for (size_t i = 0; i < direction.reals.size(); ++i)
          moved[operand].reals[i] += (side ? -step : step) * direction.reals[i];
        auto there = interpret(forward, moved);
        value[side] = failed(there) ? NAN : weightedSum(*there, weights);
      }
      return (value[0] - value[1]) / (2 * step);
    };
    double coarse = quotient(2e-5), fine = quotient(1e-5);
    double allowed = 1e-5 * (1 + scale + std::fabs(fine));
    if (!(std::fabs(coarse - fine) <= allowed))
      return kKink;
    if (!(std::fabs(fine - predicted) <= 4 * allowed))
      return "derivative by input " + std::to_string(operand) + " is " + std::to_string(predicted) +
             ", differences say " + std::to_string(fine);
  }
  return "";
}

Outcome GraphChecks::checkGradient() {
  func::FuncOp forward = function(*module);
  if (llvm::none_of(forward.getResultTypes(), [](Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }))
    return {Outcome::NotAsked, ""};
  OwningOpRef<ModuleOp> copy = module->clone();
  func::FuncOp backward = function(*copy);
  if (failed(differentiate(backward)))
    return failedWith();
  // Data sets like round numbers, where maxima tie and pieces meet: a point nearby, another one where that has a kink.
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> factor(0.95, 0.99), offset(-0.01, 0.01);
  std::string text;
  for (int attempt = 0; attempt < 8; ++attempt) {
    Tensors at = inputs;
    for (Tensor &tensor : at)
      for (double &x : tensor.reals)
        x = attempt == 7 ? x : x * factor(generator) + (attempt % 2 ? 0 : offset(generator));
    text = gradientAt(forward, backward, at, generator);
    if (text != kKink)
      break;
  }
  return passIf(text);
}

} // namespace

Outcomes runChecks(const NodeCase &node) {
  Outcomes outcomes;
  outcomes[0] = evaluate(node);
  auto runGraph = [&](Known known) -> std::array<Outcome, 3> {
    GraphChecks checks(node, known);
    if (!checks.import()) {
      Outcome failed{Outcome::Failed, checks.problem.empty() ? "not imported" : checks.problem};
      return {failed, failed, failed};
    }
    std::array<Outcome, 3> results;
    results[0] = checks.interpretForward();
    checks.problem.clear();
    results[1] = checks.generateForward();
    checks.problem.clear();
    results[2] = checks.checkGradient();
    return results;
  };
  if (node.hasData(Known::Integers)) {
    std::array<Outcome, 3> results = runGraph(Known::Integers);
    std::copy(results.begin(), results.end(), outcomes.begin() + 1);
  }
  if (node.hasData(Known::Settings)) {
    outcomes[4] = {Outcome::Passed, ""};
    for (const Outcome &outcome : runGraph(Known::Settings))
      if (outcome.kind == Outcome::Failed && outcomes[4].kind == Outcome::Passed)
        outcomes[4] = outcome;
  }
  std::error_code ignored;
  std::filesystem::remove(scratchFile(), ignored);
  return outcomes;
}

} // namespace ztc::test
