// A whole two-layer Llama: the microstep that phase `backward` builds against finite differences of its evaluation.
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include <fmt/format.h>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

// B x S tokens, V words, D wide, two query heads on one key/value head of size 4, F wide in between.
constexpr const char *kLayer = R"(
    %n{0} = graph.rms_norm %h{0}, %ln{0}, 1.0e-5 : tensor<10x8xf32>, tensor<8xf32>
    %q{0} = graph.matmul %n{0}, %wq{0} {{transpose_b}} : tensor<10x8xf32>, tensor<8x8xf32> -> tensor<10x8xf32>
    %k{0} = graph.matmul %n{0}, %wk{0} {{transpose_b}} : tensor<10x8xf32>, tensor<4x8xf32> -> tensor<10x4xf32>
    %v{0} = graph.matmul %n{0}, %wv{0} {{transpose_b}} : tensor<10x8xf32>, tensor<4x8xf32> -> tensor<10x4xf32>
    %q4{0} = graph.reshape %q{0} : tensor<10x8xf32> -> tensor<2x5x2x4xf32>
    %k4{0} = graph.reshape %k{0} : tensor<10x4xf32> -> tensor<2x5x1x4xf32>
    %v4{0} = graph.reshape %v{0} : tensor<10x4xf32> -> tensor<2x5x1x4xf32>
    %qr{0} = graph.rope %q4{0}, %cos, %sin : tensor<2x5x2x4xf32>, tensor<5x2xf32>
    %kr{0} = graph.rope %k4{0}, %cos, %sin : tensor<2x5x1x4xf32>, tensor<5x2xf32>
    %a{0} = graph.attention %qr{0}, %kr{0}, %v4{0}, 5.0e-1 {{causal}} : tensor<2x5x2x4xf32>, tensor<2x5x1x4xf32>
    %a2{0} = graph.reshape %a{0} : tensor<2x5x2x4xf32> -> tensor<10x8xf32>
    %o{0} = graph.matmul %a2{0}, %wo{0} {{transpose_b}} : tensor<10x8xf32>, tensor<8x8xf32> -> tensor<10x8xf32>
    %r{0} = graph.add %h{0}, %o{0} : tensor<10x8xf32>
    %m{0} = graph.rms_norm %r{0}, %lm{0}, 1.0e-5 : tensor<10x8xf32>, tensor<8xf32>
    %g{0} = graph.matmul %m{0}, %wg{0} {{transpose_b}} : tensor<10x8xf32>, tensor<12x8xf32> -> tensor<10x12xf32>
    %u{0} = graph.matmul %m{0}, %wu{0} {{transpose_b}} : tensor<10x8xf32>, tensor<12x8xf32> -> tensor<10x12xf32>
    %s{0} = graph.swiglu %g{0}, %u{0} : tensor<10x12xf32>
    %d{0} = graph.matmul %s{0}, %wd{0} {{transpose_b}} : tensor<10x12xf32>, tensor<8x12xf32> -> tensor<10x8xf32>
    %h{1} = graph.add %r{0}, %d{0} : tensor<10x8xf32>)";

struct ArgumentText {
  std::string name, shape;
};

/// `bias` adds one to the logits, so that no linear_cross_entropy can be formed.
std::string llamaText(bool tied, bool bias) {
  std::vector<ArgumentText> parameters{{"embed", "13x8"}};
  for (std::string layer : {"0", "1"})
    for (auto [name, shape] : {std::pair{"ln", "8"},
                               {"wq", "8x8"},
                               {"wk", "4x8"},
                               {"wv", "4x8"},
                               {"wo", "8x8"},
                               {"lm", "8"},
                               {"wg", "12x8"},
                               {"wu", "12x8"},
                               {"wd", "8x12"}})
      parameters.push_back({name + layer, shape});
  parameters.push_back({"norm", "8"});
  if (!tied)
    parameters.push_back({"head", "13x8"});
  if (bias)
    parameters.push_back({"bias", "13"});
  std::string text = "module attributes {graph.batch = 2 : i64, graph.seq = 5 : i64, graph.vocabulary = 13 : i64} {\n"
                     "  func.func @forward(%tokens: tensor<2x5xi32> {graph.role = \"tokens\"}";
  for (const ArgumentText &p : parameters)
    text +=
        fmt::format(", %{0}: tensor<{1}xf32> {{graph.role = \"parameter\", graph.name = \"{0}\"}}", p.name, p.shape);
  text += ") -> (tensor<2x5x13xf32> {graph.result = \"logits\"}) {\n";
  text += "    %cos = graph.constant dense<[[1.0, 1.0], [0.54, 0.99], [-0.42, 0.98], [-0.99, 0.96], [-0.65, 0.92]]> : "
          "tensor<5x2xf32>\n"
          "    %sin = graph.constant dense<[[0.0, 0.0], [0.84, 0.01], [0.91, 0.02], [0.14, 0.03], [-0.76, 0.04]]> : "
          "tensor<5x2xf32>\n"
          "    %flat = graph.reshape %tokens : tensor<2x5xi32> -> tensor<10xi32>\n"
          "    %h0 = graph.embedding %embed, %flat : tensor<13x8xf32>, tensor<10xi32> -> tensor<10x8xf32>";
  text += fmt::format(fmt::runtime(kLayer), 0, 1) + fmt::format(fmt::runtime(kLayer), 1, 2);
  text += fmt::format(
      "\n    %hidden = graph.rms_norm %h2, %norm, 1.0e-5 : tensor<10x8xf32>, tensor<8xf32>\n"
      "    %y = graph.matmul %hidden, %{} {{transpose_b}} : tensor<10x8xf32>, tensor<13x8xf32> -> tensor<10x13xf32>\n",
      tied ? "embed" : "head");
  if (bias)
    text += "    %bb = graph.broadcast %bias : tensor<13xf32> -> tensor<10x13xf32>\n"
            "    %yb = graph.add %y, %bb : tensor<10x13xf32>\n";
  text += fmt::format("    %logits = graph.reshape %y{} : tensor<10x13xf32> -> tensor<2x5x13xf32>\n    return %logits "
                      ": tensor<2x5x13xf32>\n  }}\n}}\n",
                      bias ? "b" : "");
  return text;
}

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
  EXPECT_NEAR(results[0].reals[0], (*interpret(llama.eval, arguments))[0].reals[0], 1e-12);
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
      loss[side] = (*interpret(llama.eval, moved))[0].reals[0];
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

TEST(LlamaGenerate, GivesOneRowOfTheLogits) {
  for (bool bias : {false, true}) {
    Llama llama(false, bias);
    ASSERT_TRUE(llama.generate);
    GraphContext &context = llama.context;
    auto original = context.parse(llamaText(false, bias));
    Tensors arguments = llama.arguments(5);
    Tensors forwardArguments = arguments;
    forwardArguments.erase(forwardArguments.begin() + 1);
    auto logits = interpret(original->lookupSymbol<func::FuncOp>("forward"), forwardArguments);
    Tensor position({1}, IntegerType::get(&context.context, 32));
    position.integers[0] = 6;
    arguments[1] = position;
    auto row = interpret(llama.generate, arguments);
    ASSERT_TRUE(succeeded(logits) && succeeded(row));
    ASSERT_EQ((*row)[0].count(), 13);
    for (int64_t i = 0; i < 13; ++i)
      EXPECT_NEAR((*row)[0].reals[i], (*logits)[0].reals[6 * 13 + i], 1e-12);
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
