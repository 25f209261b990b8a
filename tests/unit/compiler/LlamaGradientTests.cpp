// A whole two-layer Llama: the microstep that phase `backward` builds against finite differences of its evaluation.
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include "tests/unit/compiler/LlamaText.h"
#include <numeric>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

struct Llama {
  GraphContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp eval, microstep, update, generate;

  Llama(bool tied, bool bias, const AutodiffOptions &options = {}) : module(context.parse(llamaText(tied, bias))) {
    PassManager pm(&context.context);
    pm.addPass(createVerifyImport());
    populateAutodiffPipeline(pm, options);
    pm.addPass(createVerifyBackward());
    EXPECT_TRUE(succeeded(pm.run(*module)));
    eval = module->lookupSymbol<func::FuncOp>("eval");
    microstep = module->lookupSymbol<func::FuncOp>("microstep");
    update = module->lookupSymbol<func::FuncOp>("update");
    generate = module->lookupSymbol<func::FuncOp>("generate");
  }

  /// tokens, targets, parameters of @eval.
  Tensors arguments(uint64_t seed) {
    std::mt19937_64 generator(seed);
    Tensors result;
    for (Type type : eval.getArgumentTypes())
      result.push_back(randomTensor(cast<RankedTensorType>(type), generator, 13));
    result[1].integers[3] = result[1].integers[7] = -100;
    return result;
  }

  /// Of all sequences, by @eval.
  double loss(const Tensors &evalArguments) {
    auto results = interpret(eval, evalArguments);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? std::reduce((*results)[0].reals.begin(), (*results)[0].reals.end()) : 0;
  }

  /// The loss and gradients of @microstep with a cotangent of `scale`.
  Tensors run(const Tensors &evalArguments, double scale) {
    Tensors extended = evalArguments;
    Tensor step({kStepParameterCount}, Float32Type::get(&context.context));
    step.reals[static_cast<size_t>(StepParameter::InverseCount)] = scale;
    extended.insert(extended.begin() + 2, step);
    auto results = interpret(microstep, extended);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? *results : Tensors();
  }
};

void checkAllGradients(Llama &llama) {
  Tensors arguments = llama.arguments(7);
  const double scale = 0.125, h = 6e-6;
  Tensors results = llama.run(arguments, scale);
  ASSERT_EQ(results.size(), arguments.size() - 1);
  EXPECT_NEAR(results[0].reals[0], llama.loss(arguments), 1e-12);
  for (size_t i = 1; i < results.size(); ++i)
    EXPECT_GT(maxAbs(results[i]), 0) << "gradient " << i << " is all zero";
  std::mt19937_64 generator(11);
  for (int sample = 0; sample < 50; ++sample) {
    size_t parameter = 2 + generator() % (arguments.size() - 2);
    size_t element = generator() % arguments[parameter].reals.size();
    double loss[2];
    for (int side : {0, 1}) {
      Tensors moved = arguments;
      moved[parameter].reals[element] += side ? h : -h;
      loss[side] = llama.loss(moved);
    }
    double numeric = scale * (loss[1] - loss[0]) / (2 * h);
    EXPECT_NEAR(results[parameter - 1].reals[element], numeric, 1e-6 * std::max(1.0, std::abs(numeric)))
        << "parameter " << parameter - 2 << ", element " << element;
  }
}

TEST(LlamaGradient, AgreesWithFiniteDifferences) {
  Llama llama(false, false);
  ASSERT_TRUE(llama.microstep);
  EXPECT_FALSE(llama.module->lookupSymbol("forward"));
  checkAllGradients(llama);
}

TEST(LlamaGradient, TiedEmbeddingAccumulatesInPlace) {
  Llama llama(true, false);
  ASSERT_TRUE(llama.microstep);
  checkAllGradients(llama);
  auto accumulations = llama.microstep.getOps<graph::AccumulateOp>();
  ASSERT_EQ(llvm::range_size(accumulations), 1);
  EXPECT_TRUE((*accumulations.begin()).getAccumulator().getDefiningOp<graph::LinearCrossEntropyOp>());
}

TEST(LlamaGradient, OtherLogitsUseCrossEntropy) {
  Llama llama(false, true);
  ASSERT_TRUE(llama.microstep);
  EXPECT_EQ(llvm::range_size(llama.microstep.getOps<graph::CrossEntropyGradOp>()), 1);
  checkAllGradients(llama);
}

TEST(LlamaGradient, FrozenParametersCostNothing) {
  AutodiffOptions options;
  options.freeze = "^(embed|wq[01]|wk[01]|ln[01])$";
  Llama all(false, false), some(false, false, options);
  ASSERT_TRUE(some.microstep);
  EXPECT_EQ(some.microstep.getNumResults(), all.microstep.getNumResults() - 7);
  EXPECT_TRUE(some.microstep.getOps<graph::EmbeddingGradOp>().empty());
  Tensors full = all.run(all.arguments(3), 1), part = some.run(some.arguments(3), 1);
  size_t next = 1;
  for (unsigned i = 1; i < all.microstep.getNumResults(); ++i) {
    auto name = all.microstep.getResultAttrOfType<StringAttr>(i, graph::kName).getValue();
    if (next < part.size() && some.microstep.getResultAttrOfType<StringAttr>(next, graph::kName).getValue() == name)
      EXPECT_EQ(full[i].reals, part[next++].reals) << name.str();
  }
  EXPECT_EQ(next, part.size());
}

TEST(LlamaGradient, AFrozenHeadHasNoCotangent) {
  AutodiffOptions options;
  options.freeze = "^head$";
  Llama all(false, false), some(false, false, options);
  ASSERT_TRUE(some.microstep);
  for (auto loss : some.microstep.getOps<graph::LinearCrossEntropyOp>())
    EXPECT_FALSE(loss.getDhead());
  for (auto loss : all.microstep.getOps<graph::LinearCrossEntropyOp>())
    EXPECT_TRUE(loss.getDhead());
  Tensors full = all.run(all.arguments(3), 1), part = some.run(some.arguments(3), 1);
  ASSERT_EQ(part.size() + 1, full.size());
  for (size_t i = 0; i < part.size(); ++i) // the head is the last parameter
    EXPECT_EQ(full[i].reals, part[i].reals) << i;
}

TEST(LlamaGenerate, GivesOneRowOfTheLogitsOfEachSequence) {
  for (bool bias : {false, true}) {
    Llama llama(false, bias);
    ASSERT_TRUE(llama.generate);
    GraphContext &context = llama.context;
    auto original = context.parse(llamaText(false, bias));
    Tensors arguments = llama.arguments(5);
    Tensors forwardArguments = arguments;
    forwardArguments.erase(forwardArguments.begin() + 1);
    auto logits = interpret(original->lookupSymbol<func::FuncOp>("forward"), forwardArguments);
    Tensor positions({2}, IntegerType::get(&context.context, 32));
    positions.integers = {3, 1};
    arguments[1] = positions;
    auto rows = interpret(llama.generate, arguments);
    ASSERT_TRUE(succeeded(logits) && succeeded(rows));
    ASSERT_EQ((*rows)[0].shape, (SmallVector<int64_t>{2, 13}));
    for (int64_t i = 0; i < 13; ++i) {
      EXPECT_NEAR((*rows)[0].reals[i], (*logits)[0].reals[3 * 13 + i], 1e-12);
      EXPECT_NEAR((*rows)[0].reals[13 + i], (*logits)[0].reals[6 * 13 + i], 1e-12);
    }
  }
}

/// AdamW and clipping written out a second time, with torch's formulas.
TEST(LlamaUpdate, ClipsAndStepsLikeTorch) {
  Llama llama(false, false);
  ASSERT_TRUE(llama.update);
  func::FuncOp update = llama.update;
  size_t count = (update.getNumArguments() - 1) / 4;
  std::mt19937_64 generator(9);
  Tensors arguments;
  for (Type type : update.getArgumentTypes())
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator));
  for (size_t i = 1 + 3 * count; i < arguments.size(); ++i)
    for (double &x : arguments[i].reals)
      x *= x;
  const double lr = 0.01, decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, t = 3;
  auto set = [&](StepParameter field, double value) { arguments[0].reals[static_cast<size_t>(field)] = value; };
  set(StepParameter::LearningRate, lr);
  set(StepParameter::DecayFactor, 1 - lr * decay);
  set(StepParameter::StepSize, lr / (1 - std::pow(beta1, t)));
  set(StepParameter::InverseSqrtCorrection2, 1 / std::sqrt(1 - std::pow(beta2, t)));
  set(StepParameter::Beta1, beta1);
  set(StepParameter::OneMinusBeta1, 1 - beta1);
  set(StepParameter::Beta2, beta2);
  set(StepParameter::OneMinusBeta2, 1 - beta2);
  set(StepParameter::Epsilon, epsilon);
  set(StepParameter::InverseNormLimit, 0);
  double squares = 0;
  for (size_t i = 0; i < count; ++i)
    squares += dot(arguments[1 + count + i], arguments[1 + count + i]);

  for (double clip : {1.0, 1e9, static_cast<double>(INFINITY)}) {
    set(StepParameter::Clip, clip);
    auto results = interpret(update, arguments);
    ASSERT_TRUE(succeeded(results));
    EXPECT_NEAR((*results)[3 * count].reals[0], std::sqrt(squares), 1e-10);
    EXPECT_EQ((*results)[3 * count + 1].integers[0], 1);
    double factor = std::isinf(clip) ? 1 : std::min(1.0, clip / (std::sqrt(squares) + 1e-6));
    for (size_t i = 0; i < count; ++i) {
      const Tensor &p = arguments[1 + i], &g = arguments[1 + count + i], &m = arguments[1 + 2 * count + i],
                   &v = arguments[1 + 3 * count + i];
      for (size_t e = 0; e < p.reals.size(); ++e) {
        double gradient = g.reals[e] * factor, first = beta1 * m.reals[e] + (1 - beta1) * gradient;
        double second = beta2 * v.reals[e] + (1 - beta2) * gradient * gradient;
        double decayed = p.reals[e] * (p.rank() >= 2 ? 1 - lr * decay : 1);
        double expected = decayed - lr * (first / (1 - std::pow(beta1, t))) /
                                        (std::sqrt(second / (1 - std::pow(beta2, t))) + epsilon);
        ASSERT_NEAR((*results)[i].reals[e], expected, 1e-11);
        ASSERT_NEAR((*results)[count + i].reals[e], first, 1e-12);
        ASSERT_NEAR((*results)[2 * count + i].reals[e], second, 1e-12);
      }
    }
  }

  // A gradient that is not finite changes nothing.
  for (double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    Tensors broken = arguments;
    broken[1 + count].reals[1] = bad;
    auto results = interpret(update, broken);
    ASSERT_TRUE(succeeded(results));
    EXPECT_EQ((*results)[3 * count + 1].integers[0], 0);
    for (size_t i = 0; i < count; ++i)
      EXPECT_EQ((*results)[i].reals, broken[1 + i].reals);
  }
}

} // namespace
