// The reference interpreter against values worked out by hand.
#include "tests/unit/compiler/GradientCheck.h"

using namespace mlir;
using namespace ztc;
using namespace ztc::test;
using testing::ElementsAre;

namespace {

/// The results of `@f` on no arguments.
Tensors runText(const std::string &text, Precision precision = Precision::F64) {
  GraphContext context;
  auto module = context.parse(text);
  if (!module)
    return {};
  InterpreterOptions options;
  options.precision = precision;
  auto results = interpret(module->lookupSymbol<func::FuncOp>("f"), {}, options);
  EXPECT_TRUE(succeeded(results));
  if (failed(results))
    return {};
  // Types live in the context, which ends here.
  for (Tensor &tensor : *results)
    tensor.elementType = {};
  return *results;
}

TEST(Interpreter, MovesData) {
  Tensors r = runText(
      R"(func.func @f() -> (tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x2xf32>, tensor<3x4xf32>, tensor<2x5xf32>) {
    %x = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %c = graph.constant dense<[[7.0], [8.0]]> : tensor<2x1xf32>
    %t = graph.transpose %x, [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    %b = graph.broadcast %c : tensor<2x1xf32> -> tensor<2x3xf32>
    %s = graph.slice %x, [0, 1] : tensor<2x3xf32> -> tensor<2x2xf32>
    %p = graph.pad %x, [1, 1] : tensor<2x3xf32> -> tensor<3x4xf32>
    %j = graph.concat %x, %s axis 1 : tensor<2x3xf32>, tensor<2x2xf32> -> tensor<2x5xf32>
    return %t, %b, %s, %p, %j : tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x2xf32>, tensor<3x4xf32>, tensor<2x5xf32> })");
  ASSERT_EQ(r.size(), 5u);
  EXPECT_THAT(r[0].reals, ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(r[1].reals, ElementsAre(7, 7, 7, 8, 8, 8));
  EXPECT_THAT(r[2].reals, ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(r[3].reals, ElementsAre(0, 0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6));
  EXPECT_THAT(r[4].reals, ElementsAre(1, 2, 3, 2, 3, 4, 5, 6, 5, 6));
}

TEST(Interpreter, Reduces) {
  Tensors r = runText(R"(func.func @f() -> (tensor<1x3xf32>, tensor<2x1xf32>, tensor<1x1xf32>) {
    %x = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]]> : tensor<2x3xf32>
    %a = graph.reduce_sum %x, [0] : tensor<2x3xf32> -> tensor<1x3xf32>
    %b = graph.reduce_max %x, [1] : tensor<2x3xf32> -> tensor<2x1xf32>
    %c = graph.reduce_sum %x, [0, 1] : tensor<2x3xf32> -> tensor<1x1xf32>
    return %a, %b, %c : tensor<1x3xf32>, tensor<2x1xf32>, tensor<1x1xf32> })");
  ASSERT_EQ(r.size(), 3u);
  EXPECT_THAT(r[0].reals, ElementsAre(5, -3, 9));
  EXPECT_THAT(r[1].reals, ElementsAre(3, 6));
  EXPECT_THAT(r[2].reals, ElementsAre(11));
}

TEST(Interpreter, MultipliesTransposed) {
  Tensors r = runText(R"(func.func @f() -> (tensor<2x2xf32>, tensor<3x3xf32>) {
    %x = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %w = graph.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]> : tensor<2x3xf32>
    %y = graph.matmul %x, %w {transpose_b} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2xf32>
    %z = graph.matmul %x, %w {transpose_a} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<3x3xf32>
    return %y, %z : tensor<2x2xf32>, tensor<3x3xf32> })");
  ASSERT_EQ(r.size(), 2u);
  EXPECT_THAT(r[0].reals, ElementsAre(7, -1, 16, -1));
  EXPECT_THAT(r[1].reals, ElementsAre(1, 4, -2, 2, 5, -1, 3, 6, 0));
}

TEST(Interpreter, AddsABiasBeforeItRounds) {
  // 256 + 0.75 + 0.5 is 258 in bf16 where it is rounded once; the product alone is 256, to which 0.5 adds nothing.
  const char *text = R"(func.func @f() -> (tensor<1x2xbf16>, tensor<1x2xbf16>) {
    %x = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xbf16>
    %w = graph.constant dense<[[256.0, 0.75], [2.0, 1.0]]> : tensor<2x2xbf16>
    %v = graph.constant dense<[0.5, -1.0]> : tensor<2xbf16>
    %once = graph.matmul_bias %x, %w, %v {transpose_b} : tensor<1x2xbf16>, tensor<2x2xbf16>, tensor<2xbf16> -> tensor<1x2xbf16>
    %y = graph.matmul %x, %w {transpose_b} : tensor<1x2xbf16>, tensor<2x2xbf16> -> tensor<1x2xbf16>
    %rows = graph.broadcast %v : tensor<2xbf16> -> tensor<1x2xbf16>
    %twice = graph.add %y, %rows : tensor<1x2xbf16>
    return %once, %twice : tensor<1x2xbf16>, tensor<1x2xbf16> })";
  const Tensors exact = runText(text), rounded = runText(text, Precision::F32);
  ASSERT_EQ(exact.size(), 2u);
  EXPECT_THAT(exact[0].reals, ElementsAre(257.25, 2));
  EXPECT_EQ(exact[0].reals, exact[1].reals);
  EXPECT_THAT(rounded[0].reals, ElementsAre(258, 2));
  EXPECT_THAT(rounded[1].reals, ElementsAre(256, 2));
}

TEST(Interpreter, AddsAResidualAndABiasBeforeItRounds) {
  // 256 + 0.75 + 0.75 + 0.5 is 258 in bf16 where it is rounded once, 256 where each sum is.
  const Tensors exact = runText(R"(func.func @f() -> tensor<2x2xbf16> {
    %x = graph.constant dense<[[1.0, 1.0], [0.0, 1.0]]> : tensor<2x2xbf16>
    %w = graph.constant dense<[[256.0, 2.0], [0.75, 1.0]]> : tensor<2x2xbf16>
    %r = graph.constant dense<[[0.75, 4.0], [8.0, 16.0]]> : tensor<2x2xbf16>
    %v = graph.constant dense<[0.5, -1.0]> : tensor<2xbf16>
    %y = graph.matmul_add %x, %w, %r bias %v : tensor<2xbf16> : tensor<2x2xbf16>, tensor<2x2xbf16>, tensor<2x2xbf16>
    return %y : tensor<2x2xbf16> })",
                                Precision::F32);
  ASSERT_EQ(exact.size(), 1u);
  EXPECT_THAT(exact[0].reals, ElementsAre(258, 6, 9.25, 16));
}

TEST(Interpreter, MakesGeluOfTheSumBeforeItRounds) {
  const Tensors result = runText(R"(func.func @f() -> (tensor<1x8xbf16>, tensor<1x8xbf16>) {
    %x = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xbf16>
    %w = graph.constant dense<[[256.0, 2.0, -2.0, 0.0, 1.0, -1.0, 4.0, -4.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]> : tensor<2x8xbf16>
    %v = graph.constant dense<[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<8xbf16>
    %y, %s = graph.matmul_gelu %x, %w, %v : tensor<1x2xbf16>, tensor<2x8xbf16>, tensor<8xbf16> -> tensor<1x8xbf16>, tensor<1x8xbf16>
    return %y, %s : tensor<1x8xbf16>, tensor<1x8xbf16> })",
                                 Precision::F32);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_THAT(result[1].reals, ElementsAre(258, 2, -2, 0, 1, -1, 4, -4));
  // torch.nn.functional.gelu(torch.tensor([...]), approximate="tanh").bfloat16() of f32.
  EXPECT_THAT(result[0].reals, ElementsAre(258, 1.953125, -0.04541015625, 0, 0.83984375, -0.1591796875, 4,
                                           testing::DoubleNear(-7.02e-5, 5e-7)));
}

TEST(Interpreter, ComparesNaNAsUnordered) {
  Tensors r = runText(R"(func.func @f() -> (tensor<3xi1>, tensor<3xi1>, tensor<3xf32>, tensor<3xi32>) {
    %x = graph.constant dense<[0x7FC00000, 1.0, 2.5]> : tensor<3xf32>
    %y = graph.constant dense<[0x7FC00000, 2.0, 2.0]> : tensor<3xf32>
    %lt = graph.compare lt, %x, %y : tensor<3xf32> -> tensor<3xi1>
    %ne = graph.compare ne, %x, %y : tensor<3xf32> -> tensor<3xi1>
    %s = graph.select %lt, %x, %y : tensor<3xi1>, tensor<3xf32>
    %t = graph.constant dense<[-1.7, 1.7, 0.2]> : tensor<3xf32>
    %c = graph.cast %t : tensor<3xf32> -> tensor<3xi32>
    return %lt, %ne, %s, %c : tensor<3xi1>, tensor<3xi1>, tensor<3xf32>, tensor<3xi32> })");
  ASSERT_EQ(r.size(), 4u);
  EXPECT_THAT(r[0].integers, ElementsAre(0, 1, 0));
  EXPECT_THAT(r[1].integers, ElementsAre(1, 1, 1));
  EXPECT_EQ(r[2].reals[1], 1);
  EXPECT_EQ(r[2].reals[2], 2);
  EXPECT_THAT(r[3].integers, ElementsAre(-1, 1, 0));
}

TEST(Interpreter, RoundsEveryResultInF32Mode) {
  const char *text = R"(func.func @f() -> (tensor<f32>, tensor<bf16>) {
    %x = graph.constant dense<1.0> : tensor<f32>
    %y = graph.constant dense<3.0> : tensor<f32>
    %z = graph.div %x, %y : tensor<f32>
    %b = graph.cast %z : tensor<f32> -> tensor<bf16>
    return %z, %b : tensor<f32>, tensor<bf16> })";
  Tensors exact = runText(text), rounded = runText(text, Precision::F32);
  ASSERT_EQ(rounded.size(), 2u);
  EXPECT_EQ(exact[0].reals[0], 1.0 / 3.0);
  EXPECT_EQ(rounded[0].reals[0], static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(rounded[1].reals[0], 0.333984375);
}

TEST(Interpreter, GathersAndScattersRows) {
  Tensors r = runText(R"(func.func @f() -> (tensor<3x2xf32>, tensor<3x2xf32>) {
    %t = graph.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
    %i = graph.constant dense<[2, 0, 2]> : tensor<3xi32>
    %y = graph.embedding %t, %i : tensor<3x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
    %g = graph.embedding_grad %i, %y : tensor<3xi32>, tensor<3x2xf32> -> tensor<3x2xf32>
    return %y, %g : tensor<3x2xf32>, tensor<3x2xf32> })");
  ASSERT_EQ(r.size(), 2u);
  EXPECT_THAT(r[0].reals, ElementsAre(5, 6, 1, 2, 5, 6));
  EXPECT_THAT(r[1].reals, ElementsAre(1, 2, 0, 0, 10, 12));
}

TEST(Interpreter, RoutesRowsToExperts) {
  // Of three tokens with two choices each; expert 1 of four has none, 9 counts as 3, -1 as 0.
  Tensors r =
      runText(R"(func.func @f() -> (tensor<6xi32>, tensor<3x2xi32>, tensor<5xi32>, tensor<6x1xf32>, tensor<3x1xf32>) {
    %c = graph.constant dense<[[2, 0], [9, 2], [-1, 3]]> : tensor<3x2xi32>
    %x = graph.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
    %o, %p, %s = graph.route %c : tensor<3x2xi32> -> tensor<6xi32>, tensor<3x2xi32>, tensor<5xi32>
    %d = graph.dispatch %x by %o, %p : tensor<3x1xf32>, tensor<6xi32>, tensor<3x2xi32> -> tensor<6x1xf32>
    %y = graph.combine %d by %o, %p : tensor<6x1xf32>, tensor<6xi32>, tensor<3x2xi32> -> tensor<3x1xf32>
    return %o, %p, %s, %d, %y : tensor<6xi32>, tensor<3x2xi32>, tensor<5xi32>, tensor<6x1xf32>, tensor<3x1xf32> })");
  ASSERT_EQ(r.size(), 5u);
  EXPECT_THAT(r[0].integers, ElementsAre(1, 4, 0, 3, 2, 5));
  EXPECT_THAT(r[1].integers, ElementsAre(2, 0, 4, 3, 1, 5));
  EXPECT_THAT(r[2].integers, ElementsAre(0, 2, 2, 4, 6));
  EXPECT_THAT(r[3].reals, ElementsAre(1, 3, 1, 2, 2, 3));
  EXPECT_THAT(r[4].reals, ElementsAre(2, 4, 6));
}

TEST(Interpreter, MultipliesGroupsOfRows) {
  Tensors r = runText(R"(func.func @f() -> (tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x2x1xf32>) {
    %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
    %w = graph.constant dense<[[[1.0], [10.0]], [[7.0], [7.0]], [[2.0], [20.0]]]> : tensor<3x2x1xf32>
    %t = graph.constant dense<[[[1.0, 10.0]], [[7.0, 7.0]], [[2.0, 20.0]]]> : tensor<3x1x2xf32>
    %s = graph.constant dense<[0, 1, 1, 3]> : tensor<4xi32>
    %y = graph.grouped_matmul %x, %w rows %s : tensor<3x2xf32>, tensor<3x2x1xf32>, tensor<4xi32> -> tensor<3x1xf32>
    %z = graph.grouped_matmul %x, %t rows %s {transpose_b} : tensor<3x2xf32>, tensor<3x1x2xf32>, tensor<4xi32> -> tensor<3x1xf32>
    %o = graph.grouped_outer %x, %y rows %s : tensor<3x2xf32>, tensor<3x1xf32>, tensor<4xi32> -> tensor<3x2x1xf32>
    return %y, %z, %o : tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x2x1xf32> })");
  ASSERT_EQ(r.size(), 3u);
  EXPECT_THAT(r[0].reals, ElementsAre(21, 86, 130));
  EXPECT_THAT(r[1].reals, ElementsAre(21, 86, 130));
  EXPECT_THAT(r[2].reals, ElementsAre(21, 42, 0, 0, 3 * 86 + 5 * 130, 4 * 86 + 6 * 130));
}

TEST(Interpreter, RunsFusionGroups) {
  Tensors r = runText(R"(func.func @f() -> tensor<2xf32> {
    %x = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = graph.fusion "square_add" (%x) : (tensor<2xf32>) -> tensor<2xf32> {
    ^bb0(%a: tensor<2xf32>):
      %b = graph.mul %a, %a : tensor<2xf32>
      %c = graph.add %b, %a : tensor<2xf32>
      graph.yield %c : tensor<2xf32>
    }
    return %y : tensor<2xf32> })");
  ASSERT_EQ(r.size(), 1u);
  EXPECT_THAT(r[0].reals, ElementsAre(2, 6));
}

TEST(Interpreter, AnOpWithoutARuleIsALocatedError) {
  GraphContext context;
  context.context.allowUnregisteredDialects();
  auto module = context.parse(
      R"(func.func @f() -> tensor<2xf32> { %x = "other.op"() : () -> tensor<2xf32> loc("here") return %x : tensor<2xf32> })");
  std::string message;
  ScopedDiagnosticHandler handler(&context.context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(message) << diagnostic.getLocation() << ": " << diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(interpret(module->lookupSymbol<func::FuncOp>("f"), {})));
  EXPECT_EQ(message, "loc(\"here\"): 'other.op' op has no rule in the reference interpreter");
}

TEST(Interpreter, ArgumentsAreCheckedAgainstTheSignature) {
  GraphContext context;
  auto module = context.parse("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }");
  std::string message;
  ScopedDiagnosticHandler handler(&context.context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  EXPECT_TRUE(
      failed(interpret(module->lookupSymbol<func::FuncOp>("f"), {Tensor({3}, Float32Type::get(&context.context))})));
  EXPECT_THAT(message, testing::HasSubstr("argument 0 has type 'tensor<2xf32>', interpreted with 'tensor<3xf32>'"));
}

} // namespace
