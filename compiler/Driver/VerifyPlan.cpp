#include "compiler/Driver/VerifyPlan.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ChildProgram.h"
#include "compiler/Support/LibraryFolder.h"
#include "compiler/Support/ScratchFolder.h"
#include "compiler/Verification/StepValues.h"
#include "passes/Adapters/Names.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Packing.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/StochasticRounding.h"
#include "runtime/Format/UpdateTime.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace ztc::driver {
namespace {

constexpr unsigned kUpdates = 2, kMostRanks = 2;
constexpr double kRate = 1.0 / 1024, kBeta1 = 0.875, kBeta2 = 0.96875, kDecay = 0.125, kMomentum = 0.75;
/// As large as gradients are: an update is smooth in them then, and small ones are not blown up.
constexpr double kEpsilon = 1.0 / 64;
constexpr unsigned kSecondsOfARun = 120, kSeed = 0;

/// How far a run may be from what is computed without rounding, relative, L2 over all elements.
struct Limits {
  double loss, gradients, update;
};
Limits limitsOf(StoragePrecision precision, bool isContinuous) {
  Limits limits = precision == StoragePrecision::Fp32 ? Limits{1e-5, 1e-4, 1e-3} : Limits{2e-2, 1e-1, 2e-1};
  // Codes round the factors of products to three or four binary digits.
  if (precision == StoragePrecision::Fp8)
    limits = {5e-2, 4e-1, 6e-1};
  // By a sign an element moves by 2 where it should move by -2: one in 1600 of them may, or one in 16 in 16 bits.
  if (!isContinuous)
    limits.update = precision == StoragePrecision::Fp32 ? 0.05 : 0.5;
  return limits;
}

template <typename T> void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

/// Tokens and targets of the rows that all ranks take, and the weights at the beginning.
class Problem {
public:
  Problem(ModuleOp reference, const verification::StepInputs &inputs) : reference(reference) {
    auto number = [&](StringRef name) { return reference->getAttrOfType<IntegerAttr>(name).getInt(); };
    if (auto config = reference->getAttrOfType<StringAttr>(adapters::kConfig))
      adapterConfig = config.str();
    batch = number(graph::kBatch), sequence = number(graph::kSequence), vocabulary = number(graph::kVocabulary);
    auto microstep = graph::findEntry(reference, graph::Entry::Microstep);
    for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::Parameter)) {
      const RankedTensorType type = fullType(microstep, index);
      const std::string name = graph::argString(microstep, index, graph::kName).str();
      parameters[name] = inputs.value("parameter", name, type);
      if (!graph::isFrozen(microstep, index))
        trained.push_back(name);
    }
    isPacked = !graph::argumentsWithRole(microstep, graph::Role::DocumentStarts).empty();
    std::mt19937 generator(7);
    isPacked ? packRows(generator) : makeRows(generator);
    isWeighted = !graph::argumentsWithRole(microstep, graph::Role::LossWeights).empty();
  }

  /// The files that a run reads, of these names in a folder.
  bool write(const ScratchFolder &folder) const {
    if (!writeTensors(folder / kWeights, /*ofAdapter=*/false))
      return false;
    if (isAdapter() && (llvm::sys::fs::create_directory(folder / kAdapter) ||
                        !writeFile(folder / kAdapter + "/" + kAdapterConfigName, adapterConfig) ||
                        !writeTensors(folder / kAdapter + "/" + kAdapterStem + ".safetensors", /*ofAdapter=*/true)))
      return false;
    const std::vector<int64_t> shape{int64_t(inputIds.size()) / sequence, sequence};
    std::vector<SafetensorsSpec> specs{{"input_ids", plan::I32, shape}, {"labels", plan::I32, shape}};
    if (isWeighted)
      specs.push_back({"loss_weights", plan::F32, shape});
    std::string bytes = layoutSafetensors(specs).header;
    for (const std::vector<int64_t> &values : {inputIds, labels})
      for (int64_t value : values)
        append(bytes, int32_t(value));
    for (size_t i = 0; isWeighted && i < labels.size(); ++i)
      append(bytes, float(weightOfLabel(i)));
    return writeFile(folder / kData, bytes);
  }
  /// Of the label at a place of the file: exact in every type, and never 0.
  static double weightOfLabel(size_t place) { return 0.25 * double(1 + place % 5); }
  /// Whether a target counts, as often as its weight says.
  double weightOf(size_t target) const { return targets[target] < 0 ? 0 : isWeighted ? weights[target] : 1; }
  bool isAdapter() const { return !adapterConfig.empty(); }

  /// Rows [first, first + batch) as the model takes them.
  Tensor rows(ArrayRef<int64_t> from, RankedTensorType type, unsigned first) const {
    Tensor tensor(type);
    std::copy_n(from.begin() + int64_t(first) * batch * sequence, tensor.integers.size(), tensor.integers.begin());
    return tensor;
  }

  static constexpr StringLiteral kWeights = "weights.safetensors", kData = "data.safetensors", kAdapter = "adapter";

  ModuleOp reference;
  int64_t batch, sequence, vocabulary;
  std::map<std::string, Tensor> parameters; ///< of all, by name
  std::vector<std::string> trained;
  std::vector<int64_t> tokens, targets, starts; ///< of the rows; starts of packed ones
  std::vector<double> weights;                  ///< of the targets
  bool isPacked = false, isWeighted = false;
  std::string adapterConfig; ///< adapter_config.json; empty: the model itself is trained

private:
  /// A document a row.
  void makeRows(std::mt19937 &generator) {
    // The labels of a file stand where their tokens do: the target of a position is the label of the next one, and the
    // last position has none.
    for (unsigned rows = 0; rows < kUpdates * kMostRanks * batch; ++rows)
      for (int64_t position = 0; position < sequence; ++position) {
        tokens.push_back(int64_t(generator() % uint64_t(vocabulary)));
        const bool isCounted = position + 1 < sequence && (rows + position) % 5 != 2;
        targets.push_back(isCounted ? int64_t(generator() % uint64_t(vocabulary)) : -100);
        weights.push_back(weightOfLabel(targets.size()));
      }
    inputIds = tokens;
    for (size_t i = 0; i < tokens.size(); ++i)
      labels.push_back(i % size_t(sequence) == 0 ? -100 : targets[i - 1]);
  }

  /// Rows of documents that fill them in pairs, as a run packs them.
  void packRows(std::mt19937 &generator) {
    std::vector<uint64_t> places;
    for (unsigned row = 0; row < kUpdates * kMostRanks * batch; ++row) {
      const auto first = 1 + generator() % uint64_t(sequence - 1);
      places.insert(places.end(), {first, uint64_t(sequence) - first});
    }
    for (uint64_t length : places)
      for (int64_t i = 0; i < sequence; ++i) {
        const bool isLast = i == int64_t(length), isCounted = isLast || (i > 0 && i < int64_t(length) && i % 5 != 2);
        inputIds.push_back(i <= int64_t(length) ? int64_t(generator() % uint64_t(vocabulary)) : 0);
        labels.push_back(isCounted ? inputIds.back() : -100);
      }
    const PackedRows packed = packDocuments(places, uint64_t(sequence), /*dropLong=*/false, kSeed);
    for (const DocumentPiece &piece : packed.pieces)
      for (uint64_t place = 0; place < piece.places; ++place) {
        const size_t at = piece.document * uint64_t(sequence) + place;
        starts.push_back(int64_t(tokens.size() - place) % sequence);
        tokens.push_back(inputIds[at]);
        targets.push_back(labels[at + 1]);
        weights.push_back(weightOfLabel(at + 1));
      }
  }

  std::vector<int64_t> inputIds, labels; ///< of the file

  /// Of a weight in fewer bits the type of what these are made of.
  static RankedTensorType fullType(func::FuncOp function, unsigned index) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
    auto source = function.getArgAttrOfType<DictionaryAttr>(index, graph::kSource);
    auto shape = source ? source.getAs<DenseI64ArrayAttr>("quantized_shape") : DenseI64ArrayAttr();
    return shape ? RankedTensorType::get(shape, Float32Type::get(type.getContext())) : type;
  }

  bool writeTensors(const std::string &path, bool ofAdapter) const {
    std::vector<SafetensorsSpec> specs;
    std::string bytes;
    for (const auto &[name, tensor] : parameters) {
      if ((isAdapter() && StringRef(name).starts_with(kAdapterPrefix)) != ofAdapter)
        continue;
      specs.push_back({name, plan::F32, {tensor.shape.begin(), tensor.shape.end()}});
      for (double x : tensor.reals)
        append(bytes, float(x));
    }
    return writeFile(path, layoutSafetensors(specs).header + bytes);
  }
};

/// What two updates come to.
struct Outcome {
  std::vector<double> losses;
  verification::NamedValues gradients; ///< of the first step, by parameter
  verification::NamedValues weights;   ///< at the end
};

/// By the interpreter, in f64.
FailureOr<Outcome> interpreted(const Problem &problem, verification::StepInputs inputs, unsigned world) {
  verification::NamedValues state; // "parameter NAME", "exp_avg NAME", "gradient NAME", ...
  for (const auto &[name, tensor] : problem.parameters)
    state["parameter " + name] = tensor;
  Outcome outcome;
  for (unsigned update = 0; update < kUpdates; ++update) {
    const unsigned first = update * world;
    const auto ofRank = size_t(problem.batch * problem.sequence);
    double counted = 0;
    for (size_t target = first * ofRank; target < (first + world) * ofRank; ++target)
      counted += problem.weightOf(target);
    inputs.give([&](StringRef role, StringRef name, RankedTensorType type, unsigned rank) -> std::optional<Tensor> {
      if (role == "tokens" || role == "targets")
        return problem.rows(role == "tokens" ? problem.tokens : problem.targets, type, first + rank);
      if (role == "loss_weights") {
        Tensor tensor(type);
        std::copy_n(problem.weights.begin() + int64_t((first + rank) * ofRank), ofRank, tensor.reals.begin());
        return tensor;
      }
      if (role == "document_starts")
        return problem.rows(problem.starts, type, first + rank);
      if (role == "step") {
        const double count = update + 1;
        Tensor step(type);
        auto set = [&](StepParameter index, double value) { step.reals[size_t(index)] = value; };
        set(StepParameter::InverseCount, 1.0 / counted);
        set(StepParameter::LearningRate, kRate);
        set(StepParameter::DecayFactor, 1 - kRate * kDecay);
        set(StepParameter::StepSize, kRate / (1 - std::pow(kBeta1, count)));
        set(StepParameter::InverseSqrtCorrection2, 1 / std::sqrt(1 - std::pow(kBeta2, count)));
        set(StepParameter::Beta1, kBeta1);
        set(StepParameter::OneMinusBeta1, 1 - kBeta1);
        set(StepParameter::Beta2, kBeta2);
        set(StepParameter::OneMinusBeta2, 1 - kBeta2);
        set(StepParameter::Epsilon, kEpsilon);
        set(StepParameter::Clip, std::numeric_limits<double>::infinity());
        set(StepParameter::WeightDecay, kDecay);
        set(StepParameter::Momentum, kMomentum);
        set(StepParameter::LossScale, 1);
        set(StepParameter::InverseLossScale, 1);
        set(StepParameter::KnownScale, 1);
        set(StepParameter::RandomSeed, randomField(kSeed));
        set(StepParameter::RandomStep, randomField(update));
        return step;
      }
      if (auto found = state.find((role + " " + name).str()); found != state.end())
        return found->second;
      return graph::findState(role) ? std::optional(Tensor(type)) : std::nullopt;
    });
    FailureOr<verification::NamedValues> step =
        verification::evaluateStep(problem.reference, "microstep", inputs, Precision::F64, world);
    if (failed(step))
      return failure();
    outcome.losses.push_back(step->at("loss").reals.front() / counted);
    for (const auto &[name, tensor] : *step)
      if (StringRef(name).starts_with("gradient ")) {
        state[name] = tensor;
        if (update == 0)
          outcome.gradients[name.substr(sizeof "gradient " - 1)] = tensor;
      }
    FailureOr<verification::NamedValues> updated =
        verification::evaluateStep(problem.reference, "update", inputs, Precision::F64, 1);
    if (failed(updated))
      return failure();
    for (auto &[name, tensor] : *updated)
      state[name] = std::move(tensor);
  }
  for (const std::string &name : problem.trained)
    outcome.weights[name] = state.at("parameter " + name);
  return outcome;
}

/// The f32 tensors of a file, or of the files of a folder whose names begin with `stem`, that `like` names; none that
/// they lack.
verification::NamedValues readTensors(const std::string &path, const verification::NamedValues &like,
                                      const std::string &stem = "model") {
  verification::NamedValues found;
  StatusOr<SafetensorsCollection> files = SafetensorsCollection::open(path, stem);
  if (!files.isOk())
    return found;
  for (const auto &[name, expected] : like) {
    std::optional<SafetensorsCollection::Found> one = files->find(name);
    if (!one || one->tensor->type != plan::F32 || one->tensor->bytes != 4 * expected.reals.size())
      continue;
    Tensor tensor = expected;
    const std::byte *bytes = one->file->data(*one->tensor).data();
    for (size_t i = 0; i < tensor.reals.size(); ++i) {
      float value;
      std::memcpy(&value, bytes + 4 * i, 4);
      tensor.reals[i] = value;
    }
    found[name] = std::move(tensor);
  }
  return found;
}

/// |a - b| / |b| over all tensors together, of what is left after `from` is taken away; infinity where that is NaN.
double distance(const verification::NamedValues &values, const verification::NamedValues &expected,
                const std::map<std::string, Tensor> *from) {
  double difference = 0, norm = 0;
  for (const auto &[name, tensor] : expected)
    for (size_t i = 0; i < tensor.reals.size(); ++i) {
      const double start = from ? from->at(name).reals[i] : 0;
      const double d = values.at(name).reals[i] - tensor.reals[i];
      difference += d * d;
      norm += (tensor.reals[i] - start) * (tensor.reals[i] - start);
    }
  const double relative = std::sqrt(difference / norm);
  return std::isfinite(relative) ? relative : std::numeric_limits<double>::infinity();
}

/// Losses of a log of --log-json; whether it has begun at all.
std::vector<double> lossesOf(const std::string &log, bool &begun) {
  std::vector<double> losses;
  StatusOr<std::string> text = readWholeFile(log);
  begun = text.isOk() && !text->empty();
  if (!begun)
    return losses;
  for (StringRef line : llvm::split(*text, '\n')) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
    if (!value) {
      llvm::consumeError(value.takeError());
      continue;
    }
    const llvm::json::Object *object = value->getAsObject();
    if (!object || !object->get("step") || object->get("event") || !object->get("loss"))
      continue;
    losses.push_back(object->getNumber("loss").value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return losses;
}

/// The last line of a file that says something.
std::string lastLine(const std::string &path) {
  StatusOr<std::string> text = readWholeFile(path);
  return text.isOk() ? StringRef(*text).rtrim().rsplit('\n').second.str() : std::string();
}

/// `ztc-run` beside this program, or where programs are looked for; "" where it is nowhere.
std::string findRunner() {
  static int anchor;
  const std::string self = llvm::sys::fs::getMainExecutable(nullptr, &anchor);
  llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ztc-run", {llvm::sys::path::parent_path(self)});
  if (!found)
    found = llvm::sys::findProgramByName("ztc-run");
  return found ? *found : std::string();
}

} // namespace

std::string standInFolder() {
  // Of a build, as it is installed.
  return installedFolder({"standin", "ztc/standin"}, "libztc-standin-cuda.so");
}

namespace {

/// Where a plan runs.
struct Way {
  unsigned world;
  bool onGpus;
  std::string text() const {
    const std::string what = onGpus ? "GPU" : "rank";
    return llvm::formatv("on {0} {1}{2}{3}", world, what, world > 1 ? "s" : "",
                         onGpus ? ", for which an engine on this processor stands" : "");
  }
};

/// Runs the plan in its folder, one way after the other.
class Runs {
public:
  Runs(const ScratchFolder &folder, const Problem &problem, std::string runner, StoragePrecision precision,
       const Limits &limits, llvm::function_ref<Limits(const Outcome &, const Way &)> widened, bool hasNoMasters,
       bool hasGradients)
      : folder(folder), problem(problem), runner(std::move(runner)), precision(precision), limits(limits),
        widened(widened), hasNoMasters(hasNoMasters), hasGradients(hasGradients) {}

  /// False where something is wrong, or nothing can be run.
  bool hold(const Outcome &expected, const Way &way, PlanReport &report);

private:
  std::vector<std::string> commandLine(const Way &way) const;
  /// Of the child: this program's, with the stand-ins where `way` takes them.
  static std::vector<std::string> environment(const Way &way);
  std::string file(const Way &way, const char *ending) const {
    return folder / llvm::formatv("{0}-{1}{2}", way.onGpus ? "gpus" : "ranks", way.world, ending).str();
  }

  const ScratchFolder &folder;
  const Problem &problem;
  std::string runner;
  StoragePrecision precision;
  Limits limits;
  llvm::function_ref<Limits(const Outcome &, const Way &)> widened; ///< asked for where a run is beyond the limits
  bool hasNoMasters;
  bool hasGradients; ///< all at once, so that they can be written
};

std::vector<std::string> Runs::commandLine(const Way &way) const {
  std::vector<std::string> words{folder / "plan.bin",
                                 "--data",
                                 folder / Problem::kData,
                                 "--weights",
                                 folder / Problem::kWeights,
                                 "--schedule=constant",
                                 "--clip=0",
                                 "--save-every=2",
                                 "--save",
                                 file(way, ""),
                                 "--log-json",
                                 file(way, ".jsonl"),
                                 llvm::formatv("--seed={0}", kSeed),
                                 llvm::formatv("--steps={0}", kUpdates)};
  words.push_back(llvm::formatv("--{0}={1}", way.onGpus ? "gpus" : "ranks", way.world));
  if (hasGradients)
    words.insert(words.end(), {"--dump-gradients", file(way, ".safetensors")});
  if (problem.isAdapter())
    words.insert(words.end(), {"--adapter", folder / Problem::kAdapter});
  if (!way.onGpus)
    words.insert(words.end(), {"--device=cpu", "--threads=1", "--poison"});
  for (auto [option, value] :
       {std::pair("--lr", kRate), std::pair("--beta1", kBeta1), std::pair("--beta2", kBeta2),
        std::pair("--epsilon", kEpsilon), std::pair("--weight-decay", kDecay), std::pair("--momentum", kMomentum)})
    words.push_back(llvm::formatv("{0}={1:f12}", option, value));
  if (precision == StoragePrecision::Fp16)
    words.push_back("--loss-scale=1");
  return words;
}

std::vector<std::string> Runs::environment(const Way &way) {
  std::vector<std::string> variables;
  for (char **variable = environ; *variable; ++variable)
    if (!way.onGpus || !StringRef(*variable).starts_with("ZTC_"))
      variables.push_back(*variable);
  if (way.onGpus)
    variables.insert(variables.end(), {"ZTC_STAND_INS=" + standInFolder(), "ZTC_CUDNN=0", "ZTC_CUDA_TUNE=0",
                                       llvm::formatv("ZTC_STAND_IN_GPUS={0}", way.world)});
  return variables;
}

bool Runs::hold(const Outcome &expected, const Way &way, PlanReport &report) {
  const std::string said = file(way, ".txt");
  const ChildEnd end = runChild({.path = runner,
                                 .words = commandLine(way),
                                 .environment = environment(way),
                                 .written = said,
                                 .said = said,
                                 .seconds = kSecondsOfARun});
  const int status = !end.status ? -1 : WIFEXITED(*end.status) ? WEXITSTATUS(*end.status) : 128 + WTERMSIG(*end.status);
  bool begun = false;
  const std::vector<double> losses = lossesOf(file(way, ".jsonl"), begun);
  const std::string why = end.isLate    ? llvm::formatv("it takes longer than {0} s", kSecondsOfARun).str()
                          : !end.status ? std::string("it could not be started")
                                        : lastLine(said);
  if (!begun) {
    report.gaps.push_back("the plan in a run " + way.text() + ": it does not begin: " + why);
    return false;
  }
  auto differs = [&](const Twine &what) {
    report.wrong = "a run of the plan " + way.text() +
                   (way.onGpus ? ": " : ", with memory poisoned where nothing may read it any more: ") + what.str();
    return false;
  };
  for (size_t i = 0; i < std::min(losses.size(), expected.losses.size()); ++i)
    if (const double want = expected.losses[i]; !(std::abs(losses[i] - want) <= limits.loss * std::abs(want)))
      return differs(
          llvm::formatv("the loss of step {0} is {1:e6}, the interpreter gives {2:e6}", i, losses[i], want).str());
  if (status != 0 || losses.size() != kUpdates)
    return differs(llvm::formatv("it ends with status {0}: {1}", status, why).str());
  const verification::NamedValues gradients =
      hasGradients ? readTensors(file(way, ".safetensors"), expected.gradients) : expected.gradients;
  const verification::NamedValues weights =
      readTensors(file(way, "") + "/step-00000002", expected.weights, problem.isAdapter() ? kAdapterStem : "model");
  (way.onGpus ? report.gpuRuns : report.runs) += 1;
  if (gradients.size() != expected.gradients.size() || weights.size() != expected.weights.size()) {
    report.gaps.push_back("gradients and weights of the plan in a run " + way.text() +
                          ": a checkpoint has them under other names or in parts");
    return true;
  }
  const double gradientsOff = distance(gradients, expected.gradients, nullptr),
               updateOff = hasNoMasters ? 0 : distance(weights, expected.weights, &problem.parameters);
  if (!(gradientsOff <= limits.gradients) || !(updateOff <= limits.update))
    limits = widened(expected, way);
  if (!(gradientsOff <= limits.gradients))
    return differs(
        llvm::formatv("the first step's gradients differ from the interpreter's (relative {0:e1})", gradientsOff)
            .str());
  // Without masters a weight is one of the two numbers in bf16 that are nearest to what it should be.
  if (hasNoMasters && !(distance(weights, expected.weights, nullptr) <= 0x1p-7))
    return differs("two updates move weights further than to the next bf16 number");
  if (!(updateOff <= limits.update))
    return differs(llvm::formatv("what two updates make of the weights differs from the interpreter's (relative "
                                 "{0:e1})",
                                 updateOff)
                       .str());
  return true;
}

} // namespace

PlanReport verifyPlan(const plan::Plan &plan, ModuleOp reference, StoragePrecision precision, bool withGpus) {
  PlanReport report;
  const std::string runner = findRunner();
  if (runner.empty()) {
    report.gaps.push_back("the plan in a run: there is no ztc-run beside ztc");
    return report;
  }
  const ScratchFolder folder("ztc-verify-plan");
  verification::StepInputs inputs(reference);
  const Problem problem(reference, inputs);
  if (folder.path.empty() || !problem.write(folder) || !writePlanFile(plan, folder / "plan.bin").isOk()) {
    report.gaps.push_back("the plan in a run: the temporary folder cannot be written");
    return report;
  }
  const bool hasNoMasters = plan.options().contains("master");
  Limits limits = limitsOf(precision, graph::optimizerOf(reference).isContinuous);
  // The second update reads states that the first one has rounded to 8 bits.
  if (const auto states = plan.options().find("optimizer-state");
      states != plan.options().end() && states->second == "int8")
    limits.update = std::max(limits.update, 0.2);
  // Muon's direction and products are rounded to bf16, and what is small beside the direction's norm is amplified up to
  // 3.4445^5 times. Gradients of few tokens have a low rank: there PyTorch's results are off one another by 5e-2 by the
  // order of sums alone, and a direction that differs in its last f32 digit is rounded elsewhere, too.
  if (graph::optimizerOf(reference).orthogonalizes)
    limits.update = std::max(limits.update, 0.2);
  // Of a model that makes much of small differences: four times what weights that are a quarter of a rounding off
  // change.
  auto widened = [&](const Outcome &expected, const Way &way) {
    verification::StepInputs near = inputs;
    near.moveAlong("", verification::unitOf(precision) / 4);
    Limits wide = limits;
    if (FailureOr<Outcome> moved = interpreted(Problem(reference, near), near, way.world); succeeded(moved)) {
      wide.gradients = std::max(wide.gradients, 4 * distance(moved->gradients, expected.gradients, nullptr));
      wide.update = std::max(wide.update, 4 * distance(moved->weights, expected.weights, &problem.parameters));
    }
    return wide;
  };
  Runs runs(folder, problem, runner, precision, limits, widened, hasNoMasters, !updatesInBackward(plan));
  for (unsigned world = 1; world <= kMostRanks; ++world) {
    FailureOr<Outcome> expected = interpreted(problem, inputs, world);
    if (failed(expected)) {
      report.gaps.push_back("the plan in a run: the interpreter has no rule for the step");
      return report;
    }
    for (bool onGpus : {false, true})
      if ((!onGpus || withGpus) && !runs.hold(*expected, {world, onGpus}, report))
        return report;
  }
  return report;
}

} // namespace ztc::driver
