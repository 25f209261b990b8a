// Floating-point operations and bytes of graph ops.
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace {
/// The costs of the ops of a function, in order.
struct Costs {
  std::vector<int64_t> flops, bytes;

  explicit Costs(llvm::StringRef body) {
    MLIRContext context;
    context.loadDialect<ztc::graph::GraphDialect, func::FuncDialect>();
    auto module = parseSourceString<ModuleOp>(body, &context);
    EXPECT_TRUE(module);
    if (!module)
      return;
    module->walk([&](ztc::CostOpInterface op) {
      flops.push_back(op.getFlops());
      bytes.push_back(op.getBytes());
    });
  }
};
} // namespace

TEST(GraphCosts, MatmulCountsAMultiplicationAndAnAddition) {
  Costs costs(R"(func.func @f(%a: tensor<7x3x2xf32>, %b: tensor<7x5x3xf32>) {
    %0 = graph.matmul %a, %b {transpose_a, transpose_b} : tensor<7x3x2xf32>, tensor<7x5x3xf32> -> tensor<7x2x5xf32>
    return
  })");
  EXPECT_EQ(costs.flops, std::vector<int64_t>{2 * 7 * 2 * 5 * 3});
  EXPECT_EQ(costs.bytes, std::vector<int64_t>{4 * (7 * 3 * 2 + 7 * 5 * 3 + 7 * 2 * 5)});
}

// Each of 32 rows has one matrix of four: as many operations as a product with one of them.
TEST(GraphCosts, ProductsOfGroupsCountEachRowOnce) {
  Costs costs(R"(func.func @f(%x: tensor<32x5xbf16>, %w: tensor<4x5x3xbf16>, %g: tensor<32x3xbf16>, %s: tensor<5xi32>) {
    %0 = graph.grouped_matmul %x, %w rows %s : tensor<32x5xbf16>, tensor<4x5x3xbf16>, tensor<5xi32> -> tensor<32x3xbf16>
    %1 = graph.grouped_outer %x, %g rows %s : tensor<32x5xbf16>, tensor<32x3xbf16>, tensor<5xi32> -> tensor<4x5x3xf32>
    return
  })");
  EXPECT_EQ(costs.flops, (std::vector<int64_t>{2 * 32 * 5 * 3, 2 * 32 * 5 * 3}));
  const int64_t x = 2 * 32 * 5, y = 2 * 32 * 3, starts = 4 * 5;
  EXPECT_EQ(costs.bytes, (std::vector<int64_t>{x + 2 * 4 * 5 * 3 + starts + y, x + y + starts + 4 * 4 * 5 * 3}));
}

TEST(GraphCosts, RowsByChoiceCostTheirBytes) {
  Costs costs(R"(func.func @f(%x: tensor<16x8xf32>, %c: tensor<16x2xi32>) {
    %o, %p, %s = graph.route %c : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<5xi32>
    %0 = graph.dispatch %x by %o, %p : tensor<16x8xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x8xf32>
    %1 = graph.combine %0 by %o, %p : tensor<32x8xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<16x8xf32>
    return
  })");
  EXPECT_EQ(costs.flops, (std::vector<int64_t>{0, 0, 32 * 8}));
  const int64_t tokens = 4 * 16 * 8, rows = 4 * 32 * 8, choices = 4 * 32;
  EXPECT_EQ(costs.bytes,
            (std::vector<int64_t>{3 * choices + 4 * 5, tokens + rows + 2 * choices, tokens + rows + 2 * choices}));
}

TEST(GraphCosts, AnOperandUsedTwiceCountsItsBytesOnce) {
  Costs costs(R"(func.func @f(%a: tensor<8xf32>) {
    %0 = graph.mul %a, %a : tensor<8xf32>
    return
  })");
  EXPECT_EQ(costs.flops, std::vector<int64_t>{8});
  EXPECT_EQ(costs.bytes, std::vector<int64_t>{64});
}

TEST(GraphCosts, CausalAttentionCountsHalfAndAWindowItsBand) {
  Costs costs(R"(func.func @f(%q: tensor<2x8x4x6xf32>, %k: tensor<2x8x2x6xf32>) {
    %0 = graph.attention %q, %k, %k, 1.0 : tensor<2x8x4x6xf32>, tensor<2x8x2x6xf32>
    %1 = graph.attention %q, %k, %k, 1.0 {causal} : tensor<2x8x4x6xf32>, tensor<2x8x2x6xf32>
    %2 = graph.attention %q, %k, %k, 1.0 {causal, window = 2 : i64} : tensor<2x8x4x6xf32>, tensor<2x8x2x6xf32>
    return
  })");
  int64_t perPair = 2 * 2 * 2 * 4 * 6;
  EXPECT_EQ(costs.flops, (std::vector<int64_t>{perPair * 64, perPair * 32, perPair * 14}));
}

TEST(GraphCosts, TheTrainingFormOfTheHeadDoesThreeProducts) {
  Costs costs(R"(func.func @f(%x: tensor<6x4xf32>, %w: tensor<11x4xf32>, %t: tensor<6xi32>, %s: tensor<f32>) {
    %0 = graph.linear_cross_entropy %x, %w, %t : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>
    %1, %2, %3 = graph.linear_cross_entropy %x, %w, %t scale %s : tensor<f32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<11x4xf32>
    return
  })");
  EXPECT_EQ(costs.flops, (std::vector<int64_t>{66 * (2 * 4 + 4), 66 * (6 * 4 + 6)}));
}

TEST(GraphCosts, AGroupCostsWhatItHolds) {
  Costs costs(R"(func.func @f(%x: tensor<4xf32>) {
    %0 = graph.fusion "two"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %1 = graph.exp %a : tensor<4xf32>
      %2 = graph.add %1, %a : tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    }
    return
  })");
  EXPECT_EQ(costs.flops, (std::vector<int64_t>{4, 4, 8}));
}
