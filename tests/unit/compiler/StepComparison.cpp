// One micro-step of a module by the whole compiler and the runtime on this machine, against the interpreter.
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Recompute/Passes.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/PlanFile.h"
#include "tests/unit/compiler/PlanHarness.h"
#include "tests/unit/compiler/RandomGraph.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include <cstdlib>
#include <fstream>

using namespace mlir;

namespace ztc::test {
namespace {

constexpr double kInverseCount = 0.125;

/// What a step computes, by name.
struct StepNumbers {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  std::vector<double> logits; ///< of row 0
};

/// Inputs by name of parameter.
struct StepInputs {
  std::vector<int64_t> tokens, targets;
  std::map<std::string, std::vector<double>> parameters;
};

StepInputs drawInputs(func::FuncOp forward, int64_t vocabulary, bool narrow, uint64_t seed) {
  std::mt19937_64 random(seed);
  StepInputs inputs;
  auto tokensType = cast<RankedTensorType>(forward.getArgumentTypes()[0]);
  for (int64_t i = 0; i < tokensType.getNumElements(); ++i) {
    inputs.tokens.push_back(int64_t(random() % uint64_t(vocabulary)));
    inputs.targets.push_back(i % 5 == 3 ? -100 : int64_t(random() % uint64_t(vocabulary)));
  }
  std::normal_distribution<double> normal;
  for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
    auto type = cast<RankedTensorType>(forward.getArgumentTypes()[index]);
    double scale = type.getRank() > 1 ? 1.0 / std::sqrt(double(type.getShape().back())) : 0.5;
    std::vector<double> values(type.getNumElements());
    for (double &value : values) {
      value = float(normal(random) * scale);
      if (narrow) // what a bf16 parameter holds
        value = fromBf16(toBf16(float(value)));
    }
    inputs.parameters[graph::argString(forward, index, graph::kName).str()] = values;
  }
  return inputs;
}

Tensor tensorOf(RankedTensorType type, ArrayRef<double> reals, ArrayRef<int64_t> integers) {
  Tensor tensor(type);
  std::copy(reals.begin(), reals.end(), tensor.reals.begin());
  std::copy(integers.begin(), integers.end(), tensor.integers.begin());
  return tensor;
}

FailureOr<SmallVector<Tensor>> interpretFunction(func::FuncOp function, const StepInputs &inputs) {
  Tensors arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    const StringRef role = graph::argumentKind(function, i);
    if (role == "parameter")
      arguments.push_back(tensorOf(type, inputs.parameters.at(graph::argString(function, i, graph::kName).str()), {}));
    else if (role == "step")
      arguments.push_back(tensorOf(type, std::vector<double>(type.getNumElements(), kInverseCount), {}));
    else
      arguments.push_back(tensorOf(type, {},
                                   role == "tokens"    ? inputs.tokens
                                   : role == "targets" ? inputs.targets
                                                       : std::vector<int64_t>{0}));
  }
  InterpreterOptions options;
  options.precision = Precision::F64;
  return interpret(function, arguments, options);
}

LogicalResult expectedNumbers(ModuleOp module, const StepInputs &inputs, StepNumbers &numbers) {
  auto microstep = module.lookupSymbol<func::FuncOp>("microstep");
  auto results = interpretFunction(microstep, inputs);
  auto logits = interpretFunction(module.lookupSymbol<func::FuncOp>("generate"), inputs);
  if (failed(results) || failed(logits))
    return failure();
  numbers.loss = (*results)[0].reals[0];
  for (unsigned i = 1; i < microstep.getNumResults(); ++i)
    numbers.gradients[microstep.getResultAttrOfType<StringAttr>(i, graph::kName).str()] = (*results)[i].reals;
  numbers.logits = (*logits)[0].reals;
  numbers.logits.resize((*logits)[0].shape.back());
  return success();
}

/// One number a line, floats in hexadecimal: what tests/e2e/run-step.cpp reads and writes.
void write(std::ostream &out, const std::string &name, const std::vector<double> &values) {
  out << name << ' ' << values.size() << '\n';
  for (double value : values)
    out << fmt::format("{:a}\n", value);
}

/// Runs the plan in a process of its own: the runtime and the compiler are not linked together. Returns what went
/// wrong.
std::string runPlan(const plan::Plan &plan, const StepInputs &inputs, StepNumbers &numbers) {
  llvm::SmallString<64> folder;
  if (llvm::sys::fs::createUniqueDirectory("ztc-step", folder))
    return "no temporary folder";
  auto removed = llvm::scope_exit([&] { llvm::sys::fs::remove_directories(folder); });
  std::string base(folder.str());
  if (Status status = writePlanFile(plan, base + "/plan.bin"); !status.isOk())
    return status.message();
  std::ofstream out(base + "/inputs");
  write(out, "tokens", {inputs.tokens.begin(), inputs.tokens.end()});
  write(out, "targets", {inputs.targets.begin(), inputs.targets.end()});
  write(out, "scale", {kInverseCount});
  for (const auto &[name, values] : inputs.parameters)
    write(out, name, values);
  out.close();
  std::string command = fmt::format("{0} {1}/plan.bin {1}/inputs {1}/outputs 2>{1}/errors", ZTC_RUN_STEP, base);
  if (std::system(command.c_str()) != 0) {
    std::ifstream errors(base + "/errors");
    return std::string(std::istreambuf_iterator<char>(errors), {});
  }
  std::ifstream in(base + "/outputs");
  std::string name, text;
  for (size_t count; in >> name >> count;) {
    std::vector<double> values(count);
    for (double &value : values) {
      in >> text;
      value = std::strtod(text.c_str(), nullptr);
    }
    if (name == "loss")
      numbers.loss = values.at(0);
    else if (name == "logits")
      numbers.logits = values;
    else
      numbers.gradients[name] = values;
  }
  return "";
}

double norm(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

double distance(std::vector<double> a, const std::vector<double> &b) {
  if (a.size() != b.size())
    return INFINITY;
  for (size_t i = 0; i < a.size(); ++i)
    a[i] -= b[i];
  return norm(a);
}

std::string difference(const StepNumbers &got, const StepNumbers &want, double tolerance) {
  if (!(std::abs(got.loss - want.loss) <= tolerance * (1 + std::abs(want.loss))))
    return fmt::format("loss {} instead of {}", got.loss, want.loss);
  double all = 0;
  for (const auto &[name, gradient] : want.gradients)
    all = std::hypot(all, norm(gradient));
  for (const auto &[name, gradient] : want.gradients) {
    auto found = got.gradients.find(name);
    if (found == got.gradients.end())
      return "no gradient of " + name;
    double error = distance(found->second, gradient), size = norm(gradient);
    if (!(error <= tolerance * (size + 1e-3 * all + 1e-6)))
      return fmt::format("the gradient of {} differs by {:.3g} of {:.3g}", name, error, size);
  }
  double error = distance(got.logits, want.logits), size = norm(want.logits);
  if (!(error <= tolerance * (size + 1e-3)))
    return fmt::format("logits differ by {:.3g} of {:.3g}", error, size);
  return "";
}

} // namespace

std::string compareStep(const std::string &text, const StepOptions &options, uint64_t seed) {
  GraphContext context;
  context.context.loadDialect<dist::DistDialect, plan_ir::PlanDialect>();
  std::string message;
  ScopedDiagnosticHandler handler(&context.context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      message += (message.empty() ? "" : "; ") + diagnostic.str();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context.context));
  if (!module)
    return "does not parse: " + message;
  auto failed = [&](StringRef what) { return fmt::format("{}: {}", what.str(), message); };
  const bool narrow = options.precision != StoragePrecision::Fp32;
  int64_t vocabulary = (*module)->getAttrOfType<IntegerAttr>(graph::kVocabulary).getInt();
  StepInputs inputs = drawInputs(module->lookupSymbol<func::FuncOp>("forward"), vocabulary, narrow, seed);
  auto run = [&](llvm::function_ref<void(OpPassManager &)> populate) {
    PassManager pm(&context.context);
    populate(pm);
    return succeeded(pm.run(*module));
  };
  if (!run([](OpPassManager &pm) {
        populateAutodiffPipeline(pm);
        pm.addPass(createVerifyBackward());
      }))
    return failed("differentiation");
  StepNumbers want, got;
  if (mlir::failed(expectedNumbers(*module, inputs, want)))
    return failed("interpreter");
  PrecisionOptions precision;
  precision.precision = options.precision;
  if (!run([&](OpPassManager &pm) {
        populatePrecisionPipeline(pm, precision);
        pm.addPass(createVerifyPrecision());
        populateShardPipeline(pm, {options.zero});
        pm.addPass(createVerifyShard());
      }))
    return failed("precision and shard");
  if (!options.recompute.empty() && !run([&](OpPassManager &pm) {
        populateRecomputePipeline(pm, {options.recompute, {}});
        pm.addPass(createVerifyRecompute());
      }))
    return failed("recompute");
  if (!run([&](OpPassManager &pm) {
        populateFusePipeline(pm);
        pm.addPass(createVerifyFuse());
        populateSchedulePipeline(pm);
        pm.addPass(createVerifySchedule());
        populateAssignPipeline(pm);
        pm.addPass(createVerifyAssign());
      }))
    return failed("fuse to assign");
  if (!run([&](OpPassManager &pm) {
        populateCodegenPipeline(pm, {{"x86-64-v3"}});
        pm.addPass(createVerifyCodegen());
        populatePlanPipeline(pm);
        pm.addPass(createVerifyPlan());
      }))
    return failed("codegen and plan");
  PlanOptions planOptions;
  planOptions.ztcVersion = "test";
  planOptions.withKernels = true;
  planOptions.zero = options.zero;
  planOptions.precision = wordOf(options.precision);
  FailureOr<plan::Plan> plan = buildPlan(*module, planOptions);
  if (mlir::failed(plan))
    return failed("plan file");
  if (std::string wrong = runPlan(*plan, inputs, got); !wrong.empty())
    return "run: " + wrong;
  return difference(got, want, options.tolerance);
}

} // namespace ztc::test
