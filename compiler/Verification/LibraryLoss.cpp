// The loss' kernels at the vocabulary of a plan: a few rows of a chunk.
//
// In place of products the logits are given: the interpreter's rule runs on a head whose rows are those of the logits,
// with hidden states that are unit vectors, and d_head is then what the logits' cotangents are.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Reference/Interpreter.h"
#include "compiler/Verification/LibraryCases.h"
#include "mlir/IR/Builders.h"
#include "runtime/Format/ScratchSizes.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <memory>

using namespace mlir;

namespace ztc::verification {
namespace {

struct LossCall {
  int64_t tokens, vocabulary, chunk, gpuChunk, groups;
  bool isTraining, isWeighted;
  FloatAttr logitScale, softcap;
  Type type, f32, i32;

  std::string text() const {
    std::string type;
    llvm::raw_string_ostream(type) << this->type;
    std::string bent;
    if (const double scale = logitScale.getValueAsDouble(), cap = softcap.getValueAsDouble(); scale != 1 || cap != 0)
      bent = llvm::formatv(", logits scaled by {0}, capped at {1}", scale, cap);
    return llvm::formatv("the {0}loss{1} of {2} {3} rows over {4} tokens{5}", isWeighted ? "weighted " : "",
                         isTraining ? " and its cotangents" : "", tokens, type, vocabulary, bent);
  }
};

constexpr double kScale = 256; ///< of the cotangents: what is rounded to f16 is not too small for it

/// What the rule gives for rows of logits: a loss each and, in training, the cotangents.
struct LossRowsCase {
  std::vector<double> losses, cotangents;
};

FailureOr<LossRowsCase> interpretRows(const LossCall &call, const Tensor &logits, const Tensor &targets,
                                      const Tensor &weights) {
  MLIRContext *context = call.f32.getContext();
  const int64_t count = logits.shape[0];
  Block block;
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(&block);
  const Location loc = builder.getUnknownLoc();
  Tensor hidden({count, count}, call.f32), head({call.vocabulary, count}, call.f32);
  for (int64_t row = 0; row < count; ++row) {
    hidden.reals[size_t(row * count + row)] = 1;
    for (int64_t column = 0; column < call.vocabulary; ++column)
      head.reals[size_t(column * count + row)] = logits.reals[size_t(row * call.vocabulary + column)];
  }
  SmallVector<Tensor> arguments{hidden, head, targets};
  if (call.isTraining)
    arguments.push_back(Tensor::scalar(kScale, call.f32));
  if (call.isWeighted)
    arguments.push_back(weights);
  SmallVector<Value> values;
  for (const Tensor &argument : arguments)
    values.push_back(block.addArgument(argument.type(), loc));
  const Type loss = RankedTensorType::get({count}, call.f32);
  auto op = graph::LinearCrossEntropyOp::create(
      builder, loc, loss, call.isTraining ? hidden.type() : Type(), call.isTraining ? head.type() : Type(), values[0],
      values[1], values[2], call.isTraining ? values[3] : Value(), call.isWeighted ? values.back() : Value(),
      call.logitScale, call.softcap);
  graph::YieldOp::create(builder, loc, op->getResults());
  InterpreterOptions options;
  options.precision = Precision::F64;
  FailureOr<SmallVector<Tensor>> results = Interpreter(options).run(block, arguments);
  if (failed(results))
    return failure();
  LossRowsCase rows{(*results)[0].reals, {}};
  if (call.isTraining) // d_head is (vocabulary, rows)
    for (int64_t row = 0; row < count; ++row)
      for (int64_t column = 0; column < call.vocabulary; ++column)
        rows.cotangents.push_back((*results)[2].reals[size_t(column * count + row)]);
  return rows;
}

/// Logits at the edges of a row count as much as all others together: one that is left out is seen in every number.
void plantLogits(LibraryLaunch &launch, const LossCall &call, Type type, int64_t first) {
  const double score = (std::log(double(call.vocabulary)) + 1) / call.logitScale.getValueAsDouble();
  const int64_t whole = call.vocabulary / 64 * 64;
  for (int64_t column : {int64_t(0), call.vocabulary / 2, whole - 1, whole, call.vocabulary - 1})
    if (column >= 0 && column < call.vocabulary)
      launch.memory(0).write(first + column, Tensor::scalar(score, type));
}

/// `ld`: elements between rows of logits. A host has products of any type in f32, and rounds them when it reads them; a
/// GPU has them in the call's type. Cotangents take their places.
LibraryLaunch rowsLaunch(const LossCall &call, int64_t rows, int64_t ld, bool isForGpus) {
  LibraryLaunch launch;
  const Type stored = isForGpus ? call.type : call.f32;
  launch.random("logits", stored, rows * ld, 1);
  Tensor targets({rows}, call.i32);
  launch.units = fewOf(rows), launch.extent = rows;
  int64_t number = 0;
  for (int64_t row : launch.units) { // the last column, none, the first one, one between
    const int64_t chosen[] = {call.vocabulary - 1, -1, 0, call.vocabulary / 2 + 1};
    targets.integers[size_t(row)] = std::min(chosen[number++ % 4], call.vocabulary - 1);
  }
  launch.given("targets", targets);
  if (call.isTraining)
    launch.given("scale", Tensor::scalar(kScale, call.f32));
  const unsigned losses = launch.poison("losses", uint64_t(rows) * 4);
  Tensor weights({rows}, call.f32);
  for (auto [row, weight] : llvm::enumerate(weights.reals))
    weight = 0.25 * double(1 + row % 7);
  if (call.isWeighted)
    launch.given("weights", weights);
  launch.scalars = isForGpus ? std::vector<int64_t>{call.vocabulary} : std::vector<int64_t>{ld, call.vocabulary};
  if (!launch.refused.empty())
    return launch;
  const auto count = int64_t(launch.units.size());
  Tensor logits({count, call.vocabulary}, call.f32), own({count}, call.i32), ownWeights({count}, call.f32);
  number = 0;
  for (int64_t row : launch.units) {
    plantLogits(launch, call, stored, row * ld);
    std::vector<int64_t> positions;
    for (int64_t column = 0; column < call.vocabulary; ++column)
      positions.push_back(row * ld + column);
    llvm::transform(launch.memory(0).elements(stored, positions).reals, logits.reals.begin() + number * call.vocabulary,
                    [&](double product) { return roundTo(product, call.type); });
    ownWeights.reals[size_t(number)] = weights.reals[size_t(row)];
    own.integers[size_t(number++)] = targets.integers[size_t(row)];
  }
  const FailureOr<LossRowsCase> expected = interpretRows(call, logits, own, ownWeights);
  if (failed(expected)) {
    launch.refused = "the interpreter has no rule for it";
    return launch;
  }
  const double relative = libraryTolerance(call.type);
  number = 0;
  for (int64_t row : launch.units) {
    launch.expect(losses, call.f32, row, expected->losses[size_t(number)], libraryTolerance(call.f32));
    for (int64_t column = 0; call.isTraining && column < call.vocabulary; ++column) {
      const double cotangent = expected->cotangents[size_t(number * call.vocabulary + column)];
      launch.expect(0, stored, row * ld + column, cotangent, relative, cotangent == 0 ? 0 : kScale * 1e-9);
    }
    ++number;
  }
  return launch;
}

LibraryLaunch sumLaunch(const LossCall &call, bool adds) {
  LibraryLaunch launch;
  const int64_t count = call.tokens / call.groups;
  launch.random("losses", call.f32, count, 1);
  launch.random("loss", call.f32, 1, 2);
  launch.scalars = {count, adds};
  launch.extent = 1, launch.units = {0};
  if (!launch.refused.empty())
    return launch;
  double sum = adds ? launch.memory(1).elements(call.f32, {0}).reals[0] : 0;
  for (int64_t row = 0; row < count; ++row)
    sum += launch.memory(0).elements(call.f32, {row}).reals[0];
  launch.expect(1, call.f32, 0, sum, 1e-6, 1e-6);
  return launch;
}

} // namespace

std::vector<LibraryCase> lossCases(Operation *op, DictionaryAttr kernels) {
  std::vector<LibraryCase> cases;
  auto loss = dyn_cast<graph::LinearCrossEntropyOp>(op);
  if (!loss)
    return cases;
  MLIRContext *context = op->getContext();
  const auto hidden = cast<RankedTensorType>(loss.getHidden().getType());
  LossCall known;
  known.tokens = hidden.getDimSize(0);
  known.vocabulary = cast<RankedTensorType>(loss.getHead().getType()).getDimSize(0);
  auto chunk = op->getAttrOfType<IntegerAttr>(plan_ir::kChunk);
  known.chunk = std::clamp<int64_t>(chunk ? chunk.getInt() : known.tokens, 1, known.tokens);
  known.gpuChunk =
      std::clamp<int64_t>(int64_t(gpuLinearCrossEntropyChunk(uint64_t(known.tokens), uint64_t(known.vocabulary),
                                                             hidden.getElementTypeBitWidth() / 8)),
                          1, known.tokens);
  known.groups = cast<RankedTensorType>(loss.getLoss().getType()).getNumElements();
  known.isTraining = bool(loss.getScale());
  known.isWeighted = bool(loss.getWeights());
  known.logitScale = loss.getLogitScaleAttr(), known.softcap = loss.getSoftcapAttr();
  known.type = hidden.getElementType();
  known.f32 = Float32Type::get(context), known.i32 = IntegerType::get(context, 32);
  const auto call = std::make_shared<const LossCall>(known);
  if (const std::string kernel = serviceKernelOf(kernels, "rows_kernel"); !kernel.empty())
    cases.push_back({kernel, call->text(), false, [call](const KernelVersion &) {
                       return rowsLaunch(*call, call->chunk, int64_t(scratchRowElements(uint64_t(call->vocabulary))),
                                         /*isForGpus=*/false);
                     }});
  if (const std::string kernel = gpuKernelOf(kernels, 0); !kernel.empty())
    cases.push_back({kernel, call->text(), true, [call](const KernelVersion &) {
                       return rowsLaunch(*call, call->gpuChunk, int64_t(gpuLogitStride(uint64_t(call->vocabulary))),
                                         /*isForGpus=*/true);
                     }});
  if (const std::string kernel = gpuKernelOf(kernels, 1); !kernel.empty())
    for (const bool adds : {false, true})
      cases.push_back({kernel,
                       llvm::formatv("the sum of {0} losses{1}", call->tokens / call->groups,
                                     adds ? ", added to what is there" : ""),
                       true, [call, adds](const KernelVersion &) { return sumLaunch(*call, adds); }});
  return cases;
}

} // namespace ztc::verification
