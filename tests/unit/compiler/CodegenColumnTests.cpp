// Column reductions in blocks of rows, and the variants that add to their results.
#include "KernelHarness.h"
#include "compiler/Codegen/GroupPlan.h"
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

static const char *const kNormGrad =
    R"(func.func @rms_norm_grad(%x: tensor<75x48xf32>, %w: tensor<48xf32>, %d: tensor<75x48xf32>) -> (tensor<75x48xf32>, tensor<48xf32>) {
    %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<75x48xf32>, tensor<48xf32>
    return %a, %b : tensor<75x48xf32>, tensor<48xf32>
  })";

TEST(CodegenColumn, RmsNormGrad) {
  expectLikeReference(kNormGrad, 5e-6);
  expectLikeReference(
      R"(func.func @rms_norm_grad(%x: tensor<2x9x3x128xf32>, %w: tensor<128xf32>, %d: tensor<2x9x3x128xf32>) -> (tensor<2x9x3x128xf32>, tensor<128xf32>) {
    %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<2x9x3x128xf32>, tensor<128xf32>
    return %a, %b : tensor<2x9x3x128xf32>, tensor<128xf32>
  })",
      5e-6);
  expectLikeReference(
      R"(func.func @rms_norm_grad(%x: tensor<33x37xf32>, %w: tensor<37xf32>, %d: tensor<33x37xf32>) -> (tensor<33x37xf32>, tensor<37xf32>) {
    %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<33x37xf32>, tensor<37xf32>
    return %a, %b : tensor<33x37xf32>, tensor<37xf32>
  })",
      5e-6);
}

TEST(CodegenColumn, BuffersAndWorkspaceAreDescribed) {
  Group group(kNormGrad);
  KernelModule module(kernelContext());
  auto lowered = module.addGroup(group.fusion(), /*withAdd=*/true);
  ASSERT_TRUE(succeeded(lowered));
  ASSERT_EQ(lowered->kernels.size(), 2u);
  EXPECT_EQ(lowered->workspaceBytes, 10u * 48u * 4u); // ten blocks of at most 8 rows
  const KernelDescription &rows = lowered->kernels[0], &fold = lowered->kernels[1];
  EXPECT_EQ(rows.form, "row_column_reduce");
  EXPECT_EQ(rows.extent, 10u);
  ASSERT_EQ(rows.buffers.size(), 5u); // x, weight, dy, dx, workspace
  EXPECT_TRUE(rows.buffers[4].kind == KernelBuffer::Kind::Workspace && rows.buffers[4].written);
  EXPECT_EQ(fold.form, "fold");
  ASSERT_EQ(fold.buffers.size(), 2u); // dweight, workspace
  EXPECT_TRUE(fold.buffers[0].kind == KernelBuffer::Kind::Result && fold.buffers[0].index == 1);
  EXPECT_TRUE(fold.hasAdd);
}

// A large GPU has 132 multiprocessors: rows of a micro-step of 1024 tokens are as many blocks as those of 4096.
TEST(CodegenColumn, FewRowsMakeAsManyBlocks) {
  for (int64_t rows : {1024, 2048, 4096})
    EXPECT_EQ(rows / codegen::rowBlockOf(rows), 128) << rows;
  EXPECT_EQ(codegen::rowBlockOf(65536), 32);
  EXPECT_EQ(codegen::rowBlockOf(3), 8);
}

TEST(CodegenColumn, TheAddVariantAddsToItsResults) {
  Group group(kNormGrad);
  std::vector<Bytes> arguments;
  for (auto [number, type] : llvm::enumerate(group.original().getArgumentTypes()))
    arguments.push_back(toBytes(randomOperand(mlir::cast<mlir::RankedTensorType>(type), number + 1)));
  RunOptions adding;
  adding.add = true;
  std::vector<Bytes> plain = runGroup(group.fusion(), arguments), added = runGroup(group.fusion(), arguments, adding);
  ASSERT_EQ(plain.size(), added.size());
  for (size_t i = 0; i < plain.size(); ++i)
    for (size_t at = 0; at < plain[i].size(); at += 4)
      ASSERT_EQ(1.0f + *reinterpret_cast<float *>(&plain[i][at]), *reinterpret_cast<float *>(&added[i][at]));
}

TEST(CodegenColumn, WhatFollowsTheSumIsComputedFromIt) {
  expectLikeReference(R"(func.func @bias_grad(%x: tensor<100x64xf32>) -> (tensor<64xf32>, tensor<100x64xf32>) {
    %e = graph.exp %x : tensor<100x64xf32>
    %s = graph.reduce_sum %e, [0] : tensor<100x64xf32> -> tensor<1x64xf32>
    %h = graph.log %s : tensor<1x64xf32>
    %r = graph.reshape %h : tensor<1x64xf32> -> tensor<64xf32>
    %b = graph.broadcast %s : tensor<1x64xf32> -> tensor<100x64xf32>
    %q = graph.div %e, %b : tensor<100x64xf32>
    return %r, %q : tensor<64xf32>, tensor<100x64xf32>
  })");
}
