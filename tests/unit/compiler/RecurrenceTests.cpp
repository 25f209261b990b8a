// Linear attention in chunks, as it is written out, against the recurrence position by position.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "tests/unit/compiler/GradientCheck.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

/// What makes a chunked form inexact: each must cost it no digit.
enum class Input { Mild, EqualKeys, DeepDecays, NoDecay, EndlessDecay };

struct Recurrence {
  const char *name;
  int64_t T, chunk;
  bool delta = false;
  int64_t decays = 0; ///< of a head: none, one, or one for each row of the state
  Input input = Input::Mild;
  bool past = false, documents = false;
  int64_t Hq = 2, H = 2, K = 8, V = 4;
  int64_t shared = 0; ///< heads of queries and keys that all of values share; 0: each has its own
};

constexpr int64_t kTexts = 2;

/// @f of q, k, v, then decay, beta, past and document_starts as the case has them.
std::string textOf(const Recurrence &c) {
  auto tensor = [](std::initializer_list<int64_t> shape, const char *element = "f32") {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + element + ">";
  };
  const std::string q = tensor({kTexts, c.T, c.Hq, c.K}), k = tensor({kTexts, c.T, c.H, c.K}),
                    v = tensor({kTexts, c.T, c.H, c.V}), y = tensor({kTexts, c.T, c.Hq, c.V}),
                    state = tensor({kTexts, c.H, c.K, c.V});
  std::string arguments = "%q: " + q + ", %k: " + k + ", %v: " + v, operands, repeats;
  if (c.shared) { // %q and %k repeat the heads of two arguments
    const std::string few = tensor({kTexts, c.T, c.shared, c.K}), one = tensor({kTexts, c.T, c.shared, 1, c.K}),
                      all = tensor({kTexts, c.T, c.shared, c.H / c.shared, c.K});
    arguments = "%fq: " + few + ", %fk: " + few + ", %v: " + v;
    for (const std::string name : {"q", "k"})
      repeats += "  %" + name + "1 = graph.reshape %f" + name + " : " + few + " -> " + one + "\n  %" + name +
                 "2 = graph.broadcast %" + name + "1 : " + one + " -> " + all + "\n  %" + name + " = graph.reshape %" +
                 name + "2 : " + all + " -> " + k + "\n";
  }
  auto add = [&](bool isThere, const std::string &word, const std::string &name, const std::string &type) {
    if (!isThere)
      return;
    arguments += ", %" + name + ": " + type;
    operands += " " + word + " %" + name + " : " + type;
  };
  add(c.decays > 0, "decay", "decay", tensor({kTexts, c.T, c.H, c.decays == 1 ? 1 : c.K}));
  add(c.delta, "beta", "beta", tensor({kTexts, c.T, c.H, 1}));
  add(c.past, "past", "past", state);
  add(c.documents, "within", "starts", tensor({kTexts, c.T}, "i32"));
  return "func.func @f(" + arguments + ") -> (" + y + ", " + state + ") {\n" + repeats +
         "  %y, %s = graph.linear_attention %q, %k, %v, " + "0.3" + operands + " {chunk = " + std::to_string(c.chunk) +
         " : i64" + (c.delta ? ", delta" : "") + "} : " + q + ", " + k + ", " + v + " -> " + y + ", " + state +
         "\n  return %y, %s : " + y + ", " + state + "\n}";
}

/// Each row of `width` elements with the norm 1, as transformers has keys.
void normalise(Tensor &x, int64_t width) {
  for (size_t at = 0; at < x.reals.size(); at += size_t(width)) {
    double norm = 0;
    for (int64_t i = 0; i < width; ++i)
      norm += x.reals[at + i] * x.reals[at + i];
    for (int64_t i = 0; i < width; ++i)
      x.reals[at + i] /= std::sqrt(norm);
  }
}

Tensors argumentsOf(const Recurrence &c, func::FuncOp function) {
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  Tensors arguments;
  for (Type type : function.getArgumentTypes())
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator));
  normalise(arguments[0], c.K);
  normalise(arguments[1], c.K);
  if (c.input == Input::EqualKeys) // of all positions and heads that of the first
    for (size_t i = size_t(c.K); i < arguments[1].reals.size(); ++i)
      arguments[1].reals[i] = arguments[1].reals[i % c.K];
  size_t next = 3;
  if (c.decays)
    for (double &g : arguments[next++].reals) {
      g = c.input == Input::DeepDecays     ? (uniform(generator) < 0.3 ? -20 : -1e-3 * uniform(generator))
          : c.input == Input::NoDecay      ? 0
          : c.input == Input::EndlessDecay ? (uniform(generator) < 0.3 ? -INFINITY : -0.1)
                                           : -uniform(generator);
    }
  if (c.delta)
    for (double &beta : arguments[next++].reals)
      beta = c.input == Input::EqualKeys ? 1 : uniform(generator);
  next += c.past;
  if (c.documents) { // of the first row one in the middle of a chunk, one at its edge; the second row is one document
    Tensor &starts = arguments[next];
    for (int64_t t = 0; t < 2 * c.T; ++t)
      starts.integers[t] = t >= c.T ? 0 : t >= 2 * c.chunk ? 2 * c.chunk : t >= 3 ? 3 : 0;
  }
  return arguments;
}

class RecurrenceTest : public testing::TestWithParam<Recurrence> {
protected:
  void SetUp() override {
    module = context.parse(textOf(GetParam()));
    chunked = context.parse(textOf(GetParam()));
    ASSERT_TRUE(module && chunked);
    ASSERT_TRUE(succeeded(decomposeInPlace(function(*chunked))));
  }
  static func::FuncOp function(ModuleOp of) { return of.lookupSymbol<func::FuncOp>("f"); }

  GraphContext context;
  OwningOpRef<ModuleOp> module, chunked;
};

TEST_P(RecurrenceTest, IsWhatChunksGive) {
  const Tensors arguments = argumentsOf(GetParam(), function(*module));
  auto expected = interpret(function(*module), arguments), exact = interpret(function(*chunked), arguments);
  InterpreterOptions single;
  single.precision = Precision::F32;
  auto rounded = interpret(function(*chunked), arguments, single);
  ASSERT_TRUE(succeeded(expected) && succeeded(exact) && succeeded(rounded));
  for (unsigned i : {0, 1}) {
    EXPECT_LT(relativeError((*exact)[i], (*expected)[i]), 1e-12) << "result " << i;
    EXPECT_LT(relativeError((*rounded)[i], (*expected)[i]), 2e-6) << "in f32, result " << i;
    EXPECT_GT(maxAbs((*expected)[i]), 0) << "result " << i;
  }
}

/// Along a random direction of each operand, the derivative of the chunked form against differences of the recurrence.
TEST_P(RecurrenceTest, HasTheGradientOfTheRecurrence) {
  const Tensors arguments = argumentsOf(GetParam(), function(*module));
  std::mt19937_64 generator(11);
  auto results = interpret(function(*module), arguments);
  ASSERT_TRUE(succeeded(results));
  Tensors all(arguments), weights;
  for (const Tensor &result : *results)
    all.push_back(weights.emplace_back(randomTensor(result.type(), generator)));
  ASSERT_TRUE(succeeded(differentiateInPlace(function(*chunked))));
  auto gradients = interpret(function(*chunked), all);
  ASSERT_TRUE(succeeded(gradients));
  size_t next = 2; // after the results
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    if (!argument.isReal())
      continue;
    Tensor direction = randomTensor(argument.type(), generator);
    for (auto [d, x] : llvm::zip_equal(direction.reals, argument.reals))
      d = std::isfinite(x) ? d : 0;
    expectDirectional(function(*module), arguments, index, direction, weights, (*gradients)[next++]);
  }
}

const Recurrence kRecurrences[] = {
    {.name = "linear", .T = 10, .chunk = 4},
    {.name = "linear_grouped", .T = 10, .chunk = 4, .past = true, .Hq = 6},
    {.name = "gated", .T = 13, .chunk = 4, .decays = 1},
    {.name = "gated_grouped_past", .T = 13, .chunk = 8, .decays = 1, .past = true, .Hq = 4},
    {.name = "gated_rows", .T = 21, .chunk = 8, .decays = 2, .Hq = 4},
    {.name = "gated_rows_deep", .T = 40, .chunk = 32, .decays = 2, .input = Input::DeepDecays, .past = true},
    {.name = "delta", .T = 13, .chunk = 4, .delta = true},
    {.name = "delta_one_position", .T = 1, .chunk = 1, .delta = true, .decays = 1, .past = true},
    {.name = "delta_equal_keys", .T = 150, .chunk = 64, .delta = true, .input = Input::EqualKeys, .past = true},
    {.name = "gated_delta", .T = 70, .chunk = 32, .delta = true, .decays = 1, .Hq = 4},
    {.name = "gated_delta_equal_keys", .T = 130, .chunk = 64, .delta = true, .decays = 1, .input = Input::EqualKeys},
    {.name = "gated_delta_deep", .T = 130, .chunk = 64, .delta = true, .decays = 1, .input = Input::DeepDecays},
    {.name = "gated_delta_endless", .T = 20, .chunk = 8, .delta = true, .decays = 1, .input = Input::EndlessDecay},
    {.name = "gated_delta_none",
     .T = 20,
     .chunk = 16,
     .delta = true,
     .decays = 1,
     .input = Input::NoDecay,
     .past = true},
    {.name = "gated_delta_rows", .T = 70, .chunk = 64, .delta = true, .decays = 2, .past = true, .Hq = 4},
    {.name = "gated_delta_rows_deep", .T = 40, .chunk = 16, .delta = true, .decays = 2, .input = Input::DeepDecays},
    {.name = "linear_shared", .T = 10, .chunk = 4, .past = true, .Hq = 6, .H = 6, .shared = 2},
    {.name = "gated_shared", .T = 13, .chunk = 4, .decays = 1, .Hq = 4, .H = 4, .shared = 1},
    {.name = "gated_shared_deep",
     .T = 40,
     .chunk = 16,
     .decays = 1,
     .input = Input::DeepDecays,
     .past = true,
     .Hq = 4,
     .H = 4,
     .shared = 2},
    {.name = "gated_shared_documents",
     .T = 22,
     .chunk = 8,
     .decays = 1,
     .documents = true,
     .Hq = 4,
     .H = 4,
     .shared = 2},
    {.name = "linear_shared_documents", .T = 11, .chunk = 4, .documents = true, .Hq = 4, .H = 4, .shared = 2},
    {.name = "delta_shared", .T = 13, .chunk = 4, .delta = true, .decays = 1, .Hq = 4, .H = 4, .shared = 2},
    {.name = "linear_documents", .T = 11, .chunk = 4, .documents = true},
    {.name = "gated_documents", .T = 11, .chunk = 4, .decays = 1, .documents = true, .Hq = 4},
    {.name = "delta_documents", .T = 22, .chunk = 8, .delta = true, .documents = true},
    {.name = "gated_delta_documents", .T = 22, .chunk = 8, .delta = true, .decays = 1, .documents = true, .Hq = 4},
    {.name = "gated_delta_rows_documents", .T = 22, .chunk = 8, .delta = true, .decays = 2, .documents = true},
};

/// How a failure names its case.
void PrintTo(const Recurrence &recurrence, std::ostream *stream) {
  *stream << recurrence.name;
}

std::string caseName(const testing::TestParamInfo<Recurrence> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(LinearAttention, RecurrenceTest, testing::ValuesIn(kRecurrences), caseName);

/// A decay that is not a number is seen in the result, as everywhere else; one of -inf is not.
TEST(LinearAttention, HandsOnWhatIsNotANumber) {
  const Recurrence gated{.name = "gated", .T = 6, .chunk = 4, .delta = true, .decays = 1};
  GraphContext context;
  auto module = context.parse(textOf(gated));
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<func::FuncOp>("f");
  ASSERT_TRUE(succeeded(decomposeInPlace(function)));
  Tensors arguments = argumentsOf(gated, function);
  auto isFinite = [&] {
    auto results = interpret(function, arguments);
    return succeeded(results) && llvm::all_of((*results)[0].reals, [](double x) { return std::isfinite(x); });
  };
  EXPECT_TRUE(isFinite());
  arguments[3].reals[2] = -INFINITY;
  EXPECT_TRUE(isFinite());
  arguments[3].reals[2] = NAN;
  EXPECT_FALSE(isFinite());
}

TEST(LinearAttention, TakesChunksOfSixtyFourPositions) {
  for (int64_t sequence = 2; sequence <= 16384; ++sequence) {
    const int64_t chunk = graph::chunkOf(sequence);
    EXPECT_EQ(chunk & (chunk - 1), 0) << sequence;
    EXPECT_LT(chunk, sequence) << sequence;
  }
  for (int64_t sequence : {128, 4096, 32768})
    EXPECT_EQ(graph::chunkOf(sequence), 64);
  EXPECT_EQ(graph::chunkOf(1), 1);
  EXPECT_EQ(graph::chunkOf(127), 64);
  EXPECT_EQ(graph::chunkOf(126), 32);
}

/// What is before a document's first position is zeros to it, as to one alone in its row.
TEST(CausalConvolution, StaysInItsDocument) {
  GraphContext context;
  constexpr const char *kText =
      R"(func.func @f(%x: tensor<1x7x3xf64>, %w: tensor<3x4xf64>, %s: tensor<1x7xi32>) -> tensor<1x7x3xf64> {
       %y = graph.causal_convolution %x, %w within %s : tensor<1x7xi32> : tensor<1x7x3xf64>, tensor<3x4xf64> return %y : tensor<1x7x3xf64> })";
  auto module = context.parse(kText), written = context.parse(kText);
  ASSERT_TRUE(module && written);
  auto f = module->lookupSymbol<func::FuncOp>("f"), g = written->lookupSymbol<func::FuncOp>("f");
  ASSERT_TRUE(succeeded(decomposeInPlace(g)));
  std::mt19937_64 generator(3);
  Tensors arguments;
  for (Type type : f.getArgumentTypes())
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator));
  arguments[2].integers = {0, 0, 2, 2, 2, 2, 6};
  auto whole = interpret(f, arguments), primitive = interpret(g, arguments);
  ASSERT_TRUE(succeeded(whole) && succeeded(primitive));
  EXPECT_LT(relativeError((*primitive)[0], (*whole)[0]), 1e-12);
  Tensors alone(arguments); // the second document in front of its row
  for (int64_t i = 0; i < 4 * 3; ++i)
    alone[0].reals[i] = arguments[0].reals[2 * 3 + i];
  alone[2].integers.assign(7, 0);
  auto moved = interpret(f, alone);
  ASSERT_TRUE(succeeded(moved));
  for (int64_t i = 0; i < 4 * 3; ++i)
    EXPECT_EQ((*whole)[0].reals[2 * 3 + i], (*moved)[0].reals[i]);
}

} // namespace
