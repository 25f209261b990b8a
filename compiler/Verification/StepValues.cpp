#include "compiler/Verification/StepValues.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Interfaces/Interfaces.h"
#include "compiler/Reference/Rendezvous.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/Shards.h"
#include "runtime/Format/StepParameters.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <limits>
#include <random>

using namespace mlir;

namespace ztc::verification {
namespace {

std::mt19937_64 generatorOf(StringRef role, StringRef name, unsigned batch) {
  return std::mt19937_64(llvm::xxh3_64bits((role + "/" + name + "/" + Twine(batch)).str()));
}

/// A value of mean 0 and variance 1 that is nearly normal: the sum of the four 16-bit parts of `bits`. A normal
/// distribution's logarithms took a quarter of a verification.
double bellShaped(uint64_t bits) {
  int64_t sum = -2 * 0xffff;
  for (unsigned shift = 0; shift < 64; shift += 16)
    sum += int64_t(bits >> shift & 0xffff);
  return std::sqrt(3.0) * std::ldexp(double(sum), -16);
}

/// The numbers of a step as in training, so that no part of the update vanishes.
double stepParameter(StepParameter which) {
  switch (which) {
  case StepParameter::InverseCount:
    return 0.03125;
  case StepParameter::LearningRate:
  case StepParameter::StepSize:
    return 0.0078125;
  case StepParameter::DecayFactor:
    return 0.9375;
  case StepParameter::InverseSqrtCorrection2:
    return 1.5;
  case StepParameter::Beta1:
    return 0.875;
  case StepParameter::OneMinusBeta1:
    return 0.125;
  case StepParameter::Beta2:
    return 0.96875;
  case StepParameter::OneMinusBeta2:
    return 0.03125;
  case StepParameter::Epsilon:
    return 0x1p-20;
  case StepParameter::Clip:
    return 0.5;
  case StepParameter::WeightDecay:
    return 8;
  case StepParameter::Momentum:
    return 0.875;
  case StepParameter::LossScale:
  case StepParameter::InverseLossScale:
  case StepParameter::Nesterov:
    return 1;
  case StepParameter::RandomSeed:
    return 3;
  case StepParameter::RandomStep:
    return 5;
  case StepParameter::InverseNormLimit:
    return 0;
  case StepParameter::KnownScale:
    return 0.75;
  }
  return 1;
}

/// How large values of a role are: a matrix makes nothing larger, whichever of its sides is the long one.
double deviationOf(StringRef role, RankedTensorType type) {
  if (role == "parameter") {
    int64_t longest = 1;
    for (int64_t size : type.getShape())
      longest = std::max(longest, size);
    return type.getRank() < 2 ? 0.125 : 1 / std::sqrt(double(longest));
  }
  if (role == "gradient")
    return 0.0625;
  return graph::findState(role) ? 0.015625 : 1;
}

/// Interprets one function of a module in which parameters may lie in buckets, on some ranks.
class Evaluation {
public:
  Evaluation(func::FuncOp function, const StepInputs &inputs, Precision precision, unsigned world)
      : function(function), inputs(inputs), world(world) {
    options.precision = precision;
  }

  FailureOr<NamedValues> run();

private:
  bool hasBuckets();
  /// Arguments of one rank.
  SmallVector<Tensor> arguments(unsigned rank, unsigned batch);
  Tensor bucket(StringRef role, FlatSymbolRefAttr name, RankedTensorType type, unsigned rank);
  void nameResults(ArrayRef<SmallVector<Tensor>> ranks, NamedValues &named);
  void takeApart(StringRef kind, FlatSymbolRefAttr name, RankedTensorType type, const std::vector<Tensor> &ranks,
                 NamedValues &named);
  std::string resultKey(unsigned index);
  dist::BucketOp lookup(FlatSymbolRefAttr name) {
    return function->getParentOfType<ModuleOp>().lookupSymbol<dist::BucketOp>(name.getAttr());
  }

  func::FuncOp function;
  const StepInputs &inputs;
  unsigned world;
  InterpreterOptions options;
};

bool Evaluation::hasBuckets() {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, graph::kBucket))
      return true;
  return false;
}

/// A parameter's value; one in fewer bits is made of the numbers that it would have in full.
static Tensor parameterValue(const StepInputs &inputs, StringRef role, StringRef name, RankedTensorType type,
                             DictionaryAttr source, unsigned batch = 0) {
  auto format = source ? source.getAs<StringAttr>("format") : StringAttr();
  if (!format || !type.getElementType().isInteger(8))
    return inputs.value(role, name, type, batch);
  auto shape = source.getAs<DenseI64ArrayAttr>("quantized_shape").asArrayRef();
  const Tensor full = inputs.value(role, name, RankedTensorType::get(shape, Float32Type::get(type.getContext())));
  plan::Parameter parameter;
  parameter.set_format(weightFormat(format.getValue()));
  parameter.mutable_quantized_shape()->Assign(shape.begin(), shape.end());
  parameter.set_quantized_transposed(source.contains("quantized_transposed"));
  const ElementReader read = [&](uint64_t begin, uint64_t count, float *out) {
    std::copy_n(full.reals.begin() + begin, count, out);
  };
  const std::vector<std::byte> bytes =
      quantize(quantizedLayout(parameter).value(), quantizedReader(parameter, read), /*threads=*/1);
  Tensor packed(type);
  llvm::transform(bytes, packed.integers.begin(), [](std::byte byte) { return int64_t(byte); });
  return packed;
}

/// A bucket as a rank holds it: all of it, or its shard; what no parameter stands on is zero.
Tensor Evaluation::bucket(StringRef role, FlatSymbolRefAttr name, RankedTensorType type, unsigned rank) {
  dist::BucketOp op = lookup(name);
  const int64_t shard = int64_t(shardElements(op.getElements(), world, op.getQuantum().value_or(0)));
  Tensor full({type.hasStaticShape() ? type.getNumElements() : shard * world}, type.getElementType());
  // What gradients add up in holds nothing before a step's first micro-step.
  const bool isAccumulator = role == "gradient" && graph::isEntry(function, graph::Entry::Microstep);
  if (!isAccumulator)
    for (Attribute entry : op.getParameters()) {
      dist::BucketParameter member = dist::readBucketParameter(entry);
      Tensor part = parameterValue(inputs, role, member.name,
                                   RankedTensorType::get(member.shape, type.getElementType()), member.source);
      llvm::copy(part.reals, full.isReal() ? full.reals.begin() + member.offset : full.reals.end());
      llvm::copy(part.integers, full.isReal() ? full.integers.end() : full.integers.begin() + member.offset);
    }
  if (!dist::isShard(type))
    return full;
  Tensor own({shard}, type.getElementType());
  if (own.isReal())
    std::copy_n(full.reals.begin() + rank * shard, shard, own.reals.begin());
  else
    std::copy_n(full.integers.begin() + rank * shard, shard, own.integers.begin());
  return own;
}

SmallVector<Tensor> Evaluation::arguments(unsigned rank, unsigned batch) {
  SmallVector<Tensor> values;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    StringRef role = graph::argumentKind(function, i);
    if (auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket))
      values.push_back(bucket(role, name, type, rank));
    else if (role.empty()) // a function that is not part of a step: arguments by their places
      values.push_back(inputs.value("argument", std::to_string(i), type, batch));
    else
      values.push_back(parameterValue(inputs, role, graph::argString(function, i, graph::kName), type,
                                      function.getArgAttrOfType<DictionaryAttr>(i, graph::kSource), batch));
  }
  return values;
}

std::string Evaluation::resultKey(unsigned index) {
  auto text = [&](StringRef name) {
    auto attribute = function.getResultAttrOfType<StringAttr>(index, name);
    return attribute ? attribute.str() : std::string();
  };
  const std::string kind = graph::resultKind(function, index).str(), name = text(graph::kName);
  return name.empty() ? kind.empty() ? "result " + std::to_string(index) : kind : kind + " " + name;
}

void Evaluation::takeApart(StringRef kind, FlatSymbolRefAttr name, RankedTensorType type,
                           const std::vector<Tensor> &ranks, NamedValues &named) {
  Tensor full = ranks.front();
  if (dist::isShard(type))
    for (const Tensor &other : ArrayRef(ranks).drop_front()) {
      llvm::append_range(full.reals, other.reals);
      llvm::append_range(full.integers, other.integers);
    }
  for (Attribute entry : lookup(name).getParameters()) {
    dist::BucketParameter member = dist::readBucketParameter(entry);
    Tensor part(member.shape, type.getElementType());
    if (part.isReal())
      std::copy_n(full.reals.begin() + member.offset, part.count(), part.reals.begin());
    else
      std::copy_n(full.integers.begin() + member.offset, part.count(), part.integers.begin());
    named[(kind + " " + member.name.getValue()).str()] = std::move(part);
  }
}

void Evaluation::nameResults(ArrayRef<SmallVector<Tensor>> ranks, NamedValues &named) {
  const bool isMicrostep = graph::isEntry(function, graph::Entry::Microstep);
  bool hasReduced = false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    hasReduced |= StringRef(resultKey(i)) == "reduced_gradient";
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    std::string key = resultKey(i);
    auto name = function.getResultAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket);
    std::vector<Tensor> each;
    for (const SmallVector<Tensor> &rank : ranks)
      each.push_back(rank[i]);
    if (name) {
      // Of a gradient that each rank adds up for itself, what all ranks' sum is follows in another result.
      if (isMicrostep && key == "gradient" && hasReduced)
        continue;
      takeApart(key == "reduced_gradient" ? "gradient" : key, name,
                cast<RankedTensorType>(function.getResultTypes()[i]), each, named);
      continue;
    }
    // What a step's update gives is the same everywhere, in whichever function it stands.
    const bool isOfUpdate = key == "gradient_norm" || key == "finite";
    if (isMicrostep && !isOfUpdate) {
      Tensor &sum = named[key];
      for (const Tensor &value : each) {
        if (!sum.elementType)
          sum = value;
        else
          for (auto [x, y] : llvm::zip_equal(sum.reals, value.reals))
            x += y;
      }
      continue;
    }
    // The update is the same everywhere; of what only goes forward each rank has its own.
    named[key] = each.front();
    for (unsigned rank = 1; rank < each.size(); ++rank)
      if (!isOfUpdate && !graph::isEntry(function, graph::Entry::Update))
        named[key + " of rank " + std::to_string(rank)] = each[rank];
  }
}

/// A state in blocks, which is flat before there are buckets, has its parameter's shape.
void shapeBlocks(NamedValues &named) {
  for (auto &[key, tensor] : named) {
    const auto [kind, name] = StringRef(key).split(' ');
    const auto parameter = named.find(("parameter " + name).str());
    if (!tensor.elementType.isIntOrFloat() && parameter != named.end())
      tensor.shape = parameter->second.shape;
  }
}

/// A parameter and the master it was rounded from are one value.
void joinMasters(NamedValues &named) {
  constexpr StringLiteral prefix = "master ";
  for (auto at = named.begin(); at != named.end();) {
    if (!StringRef(at->first).starts_with(prefix)) {
      ++at;
      continue;
    }
    auto parameter = named.find("parameter " + at->first.substr(prefix.size()));
    if (parameter == named.end()) {
      ++at;
      continue;
    }
    parameter->second.elementType = Float32Type::get(at->second.elementType.getContext());
    if (at->second.isReal())
      parameter->second.reals = at->second.reals;
    else
      for (auto [value, remainder] : llvm::zip_equal(parameter->second.reals, at->second.integers))
        value = joinMaster(toBf16(static_cast<float>(value)), static_cast<int16_t>(remainder));
    at = named.erase(at);
  }
}

FailureOr<NamedValues> Evaluation::run() {
  NamedValues named;
  if (!hasBuckets()) {
    std::vector<SmallVector<Tensor>> batches;
    const unsigned count = graph::isEntry(function, graph::Entry::Update) ? 1 : world;
    for (unsigned batch = 0; batch < count; ++batch) {
      FailureOr<SmallVector<Tensor>> results = interpret(function, arguments(0, batch), options);
      if (failed(results))
        return failure();
      batches.push_back(std::move(*results));
    }
    nameResults(batches, named);
  } else if (world == 1) {
    FailureOr<SmallVector<Tensor>> results = interpret(function, arguments(0, 0), options);
    if (failed(results))
      return failure();
    nameResults({std::move(*results)}, named);
  } else {
    std::vector<SmallVector<Tensor>> given;
    for (unsigned rank = 0; rank < world; ++rank)
      given.push_back(arguments(rank, rank));
    auto ranks = interpretOnRanks(function, given, options);
    if (failed(ranks))
      return failure();
    nameResults(*ranks, named);
  }
  joinMasters(named);
  shapeBlocks(named);
  return named;
}

} // namespace

StepInputs::StepInputs(ModuleOp module) {
  auto number = [&](StringRef name, int64_t otherwise) {
    auto attribute = module->getAttrOfType<IntegerAttr>(name);
    return attribute ? std::max<int64_t>(1, attribute.getInt()) : otherwise;
  };
  vocabulary = number(graph::kVocabulary, 2);
  positions = number(graph::kSequence, 1);
  tokens = positions * number(graph::kBatch, 1);
  // A table's row without a gradient is not a function of the loss that finite differences could check.
  // Tokens beyond a table that is smaller than the vocabulary have one of its rows, perhaps that one.
  module.walk([&](graph::EmbeddingOp op) {
    if (!op.getPadding())
      return;
    avoided.push_back(int64_t(*op.getPadding()));
    for (int64_t token = cast<RankedTensorType>(op.getTable().getType()).getDimSize(0); token < vocabulary; ++token)
      avoided.push_back(token);
  });
}

Tensor StepInputs::direction(StringRef parameter, RankedTensorType type) {
  std::mt19937_64 generator = generatorOf("direction", parameter, 0);
  Tensor tensor(type);
  for (double &x : tensor.reals)
    x = generator() & 1 ? 1 : -1;
  return tensor;
}

Tensor StepInputs::value(StringRef role, StringRef name, RankedTensorType type, unsigned batch) const {
  if (given)
    if (std::optional<Tensor> value = given(role, name, type, batch))
      return std::move(*value);
  Tensor tensor(type);
  if (role == "master" && !tensor.isReal())
    return tensor; // the parameter is exact in bf16: no remainder
  if (role == "master")
    role = "parameter";
  const bool isOfBatch = role == "tokens" || role == "targets" || role == "document_starts" || role == "loss_weights";
  if (role == graph::kFp8Amax) { // no code is beyond its format, and few are too small for it
    llvm::fill(tensor.reals, 32.0);
    return tensor;
  }
  std::mt19937_64 generator = generatorOf(role, name, isOfBatch ? batch : 0);
  if (role == "step") {
    for (auto [index, x] : llvm::enumerate(tensor.reals))
      x = StepParameter(index) == StepParameter::Clip && !clips ? std::numeric_limits<double>::infinity()
                                                                : stepParameter(StepParameter(index));
    return tensor;
  }
  if (role == "first_token") { // as the trainer counts them, in a step of one micro-step
    llvm::fill(tensor.integers, int64_t(batch) * tokens);
    return tensor;
  }
  if (role == "document_starts") { // of each row
    const int64_t length = tensor.shape.back();
    for (size_t index = 0, start = 0; index < tensor.integers.size(); ++index) {
      const size_t place = index % size_t(length);
      start = place == 0 ? 0 : generator() % 4 == 0 ? place : start;
      tensor.integers[index] = int64_t(start);
    }
    return tensor;
  }
  if (role == "loss_weights") { // exact in all types
    for (double &x : tensor.reals)
      x = 0.25 * double(1 + generator() % 8);
    return tensor;
  }
  if (role == "position") {
    for (int64_t &x : tensor.integers)
      x = positions / 2;
    return tensor;
  }
  for (auto [index, x] : llvm::enumerate(tensor.integers)) {
    do
      x = int64_t(generator() % uint64_t(vocabulary));
    while (role == "tokens" && int64_t(avoided.size()) < vocabulary && llvm::is_contained(avoided, x));
    // Ranks count different numbers of targets.
    if (role == "targets" && index % 5 == batch + 1)
      x = -100;
  }
  const double deviation = deviationOf(role, type);
  const graph::OptimizerState *state = graph::findState(role);
  const Type bf16 = BFloat16Type::get(type.getContext());
  for (double &x : tensor.reals) {
    x = deviation * bellShaped(generator());
    if (state && !state->isSigned)
      x = x * x + 0x1p-16;
    else if (role == "parameter" && type.getRank() < 2)
      x += 1;
    x = roundTo(x, bf16);
  }
  if (state && statesInBlocks) {
    std::vector<float> values(tensor.reals.begin(), tensor.reals.end());
    roundThroughBlocks(values, state->isSigned);
    llvm::copy(values, tensor.reals.begin());
  }
  if (role == "parameter" && movedBy != 0 && (moved.empty() || moved == name))
    for (auto [x, d] : llvm::zip_equal(tensor.reals, direction(name, type).reals))
      x += movedBy * d;
  return tensor;
}

FailureOr<NamedValues> evaluateStep(ModuleOp module, StringRef name, const StepInputs &inputs, Precision precision,
                                    unsigned world) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function)
    return failure();
  // An op of a plugin may say what it computes by its decomposition alone.
  const Interpreter interpreter({});
  auto isUnknown = [&](Operation *op) { return isa<DecomposableOpInterface>(op) && !interpreter.hasRule(*op); };
  OwningOpRef<ModuleOp> copy;
  if (function.walk([&](Operation *op) { return isUnknown(op) ? WalkResult::interrupt() : WalkResult::advance(); })
          .wasInterrupted()) {
    copy = module.clone();
    function = copy->lookupSymbol<func::FuncOp>(name);
    SmallVector<Operation *> unknown;
    function.walk([&](Operation *op) {
      if (isUnknown(op))
        unknown.push_back(op);
    });
    for (Operation *op : unknown) {
      OpBuilder builder(op);
      FailureOr<SmallVector<Value>> values = cast<DecomposableOpInterface>(op).decompose(builder);
      if (failed(values))
        return op->emitOpError("cannot be decomposed, and the reference interpreter has no rule for it");
      op->replaceAllUsesWith(*values);
      op->erase();
    }
  }
  return Evaluation(function, inputs, precision, world).run();
}

double relativeError(const Tensor &value, const Tensor &expected) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (value.reals.size() != expected.reals.size() || value.integers != expected.integers)
    return infinite;
  double difference = 0, norm = 0;
  for (auto [a, b] : llvm::zip_equal(value.reals, expected.reals)) {
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!std::isfinite(a) || !std::isfinite(b))
      return infinite;
    difference += (a - b) * (a - b);
  }
  for (double b : expected.reals)
    norm += std::isfinite(b) ? b * b : 0;
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

} // namespace ztc::verification
