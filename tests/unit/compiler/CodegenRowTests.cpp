// Kernels of the row form, and what they share with the others: index mapping, reductions, pieces of rows.
#include "KernelHarness.h"
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

TEST(CodegenRow, RmsNorm) {
  expectLikeReference(R"(func.func @rms_norm(%x: tensor<5x48xf32>, %w: tensor<48xf32>) -> tensor<5x48xf32> {
    %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<5x48xf32>, tensor<48xf32>
    return %y : tensor<5x48xf32>
  })");
  expectLikeReference(R"(func.func @rms_norm(%x: tensor<2x3x197xf32>, %w: tensor<197xf32>) -> tensor<2x3x197xf32> {
    %y = graph.rms_norm %x, %w, 1.0e-6 : tensor<2x3x197xf32>, tensor<197xf32>
    return %y : tensor<2x3x197xf32>
  })");
}

TEST(CodegenRow, ResidualAndNormTogether) {
  expectLikeReference(
      R"(func.func @add_norm(%a: tensor<2x4x64xf32>, %b: tensor<8x64xf32>, %w: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<2x4x64xf32>) {
    %r = graph.reshape %a : tensor<2x4x64xf32> -> tensor<8x64xf32>
    %s = graph.add %r, %b : tensor<8x64xf32>
    %x = graph.reshape %s : tensor<8x64xf32> -> tensor<2x4x64xf32>
    %y = graph.rms_norm %x, %w, 1.0e-6 : tensor<2x4x64xf32>, tensor<64xf32>
    return %s, %y : tensor<8x64xf32>, tensor<2x4x64xf32>
  })");
}

TEST(CodegenRow, Softmax) {
  for (const char *shape : {"7x130", "3x37", "2x2x5", "4x1"})
    expectLikeReference("func.func @softmax(%x: tensor<" + std::string(shape) + "xf32>) -> tensor<" + shape +
                        "xf32> {\n" + "%y = graph.softmax %x : tensor<" + shape + "xf32>\n return %y : tensor<" +
                        shape + "xf32> }");
}

TEST(CodegenRow, Swiglu) {
  expectLikeReference(R"(func.func @swiglu(%g: tensor<6x100xf32>, %u: tensor<6x100xf32>) -> tensor<6x100xf32> {
    %y = graph.swiglu %g, %u : tensor<6x100xf32>
    return %y : tensor<6x100xf32>
  })");
  expectLikeReference(
      R"(func.func @swiglu_grad(%g: tensor<6x100xf32>, %u: tensor<6x100xf32>, %d: tensor<6x100xf32>) -> (tensor<6x100xf32>, tensor<6x100xf32>) {
    %a, %b = graph.swiglu_grad %g, %u, %d : tensor<6x100xf32>
    return %a, %b : tensor<6x100xf32>, tensor<6x100xf32>
  })");
}

TEST(CodegenRow, RopeSplitsItsRowIntoHalves) {
  for (const char *inverse : {"", "{inverse}"})
    for (auto [x, table] : {std::pair{"2x5x3x48", "5x24"}, {"1x4x2x32", "4x16"}, {"1x3x2x10", "3x5"}})
      expectLikeReference("func.func @rope(%x: tensor<" + std::string(x) + "xf32>, %c: tensor<" + table +
                          "xf32>, %s: tensor<" + table + "xf32>) -> tensor<" + x +
                          "xf32> {\n %y = graph.rope %x, %c, %s " + inverse + " : tensor<" + x + "xf32>, tensor<" +
                          table + "xf32>\n return %y : tensor<" + x + "xf32> }");
}

TEST(CodegenRow, RopeAfterReshapes) {
  expectLikeReference(
      R"(func.func @rope(%q: tensor<10x96xf32>, %c: tensor<5x16xf32>, %s: tensor<5x16xf32>, %w: tensor<32xf32>) -> tensor<10x96xf32> {
    %x = graph.reshape %q : tensor<10x96xf32> -> tensor<2x5x3x32xf32>
    %n = graph.rms_norm %x, %w, 1.0e-6 : tensor<2x5x3x32xf32>, tensor<32xf32>
    %y = graph.rope %n, %c, %s : tensor<2x5x3x32xf32>, tensor<5x16xf32>
    %z = graph.reshape %y : tensor<2x5x3x32xf32> -> tensor<10x96xf32>
    return %z : tensor<10x96xf32>
  })");
}

TEST(CodegenRow, TransposeOfTheLastDimensionFallsBackToElements) {
  expectLikeReference(R"(func.func @transpose(%x: tensor<5x7x20xf32>) -> tensor<20x5x7xf32> {
    %e = graph.exp %x : tensor<5x7x20xf32>
    %y = graph.transpose %e, [2, 0, 1] : tensor<5x7x20xf32> -> tensor<20x5x7xf32>
    return %y : tensor<20x5x7xf32>
  })");
  // Reduced over what is not contiguous: lanes one after the other.
  expectLikeReference(R"(func.func @columns(%x: tensor<70x130xf32>) -> tensor<130x1xf32> {
    %t = graph.transpose %x, [1, 0] : tensor<70x130xf32> -> tensor<130x70xf32>
    %y = graph.reduce_sum %t, [1] : tensor<130x70xf32> -> tensor<130x1xf32>
    return %y : tensor<130x1xf32>
  })");
  expectLikeReference(R"(func.func @flattened(%x: tensor<6x10x9xf32>) -> tensor<6x90xf32> {
    %t = graph.transpose %x, [0, 2, 1] : tensor<6x10x9xf32> -> tensor<6x9x10xf32>
    %r = graph.reshape %t : tensor<6x9x10xf32> -> tensor<6x90xf32>
    %m = graph.reduce_max %r, [1] : tensor<6x90xf32> -> tensor<6x1xf32>
    %b = graph.broadcast %m : tensor<6x1xf32> -> tensor<6x90xf32>
    %y = graph.sub %r, %b : tensor<6x90xf32>
    return %y : tensor<6x90xf32>
  })");
}

TEST(CodegenRow, HeadsToTheFront) {
  expectLikeReference(R"(func.func @heads(%x: tensor<2x5x3x32xf32>) -> tensor<2x3x5x32xf32> {
    %y = graph.transpose %x, [0, 2, 1, 3] : tensor<2x5x3x32xf32> -> tensor<2x3x5x32xf32>
    return %y : tensor<2x3x5x32xf32>
  })");
}

TEST(CodegenRow, PadSliceConcat) {
  expectLikeReference(
      R"(func.func @pieces(%x: tensor<3x40xf32>, %z: tensor<3x7xf32>) -> (tensor<5x60xf32>, tensor<3x87xf32>, tensor<6x40xf32>) {
    %p = graph.pad %x, [1, 9] : tensor<3x40xf32> -> tensor<5x60xf32>
    %s = graph.slice %x, [0, 3] : tensor<3x40xf32> -> tensor<3x33xf32>
    %e = graph.exp %s : tensor<3x33xf32>
    %n = graph.neg %x : tensor<3x40xf32>
    %c = graph.concat %x, %z, %n axis 1 : tensor<3x40xf32>, tensor<3x7xf32>, tensor<3x40xf32> -> tensor<3x87xf32>
    %d = graph.concat %x, %n axis 0 : tensor<3x40xf32>, tensor<3x40xf32> -> tensor<6x40xf32>
    return %p, %c, %d : tensor<5x60xf32>, tensor<3x87xf32>, tensor<6x40xf32>
  })");
}

TEST(CodegenRow, PartsOfAMatrixAreWrittenIntoItsRows) {
  // By whole vectors, and not.
  for (auto [part, whole] : {std::pair{"112", "224"}, {"100", "200"}, {"7", "14"}}) {
    std::string a = "tensor<6x" + std::string(part) + "xf32>", b = "tensor<6x" + std::string(whole) + "xf32>";
    expectLikeReference("func.func @gates(%y: " + b + ", %d: " + a + ") -> " + b +
                        " {\n %g = graph.slice %y, [0, 0] : " + b + " -> " + a + "\n %u = graph.slice %y, [0, " + part +
                        "] : " + b + " -> " + a + "\n %a, %b = graph.swiglu_grad %g, %u, %d : " + a +
                        "\n %c = graph.concat %a, %b axis 1 : " + a + ", " + a + " -> " + b + "\n return %c : " + b +
                        " }");
  }
  // Heads of q, k and v side by side; the row of the result is the token's.
  expectLikeReference(
      R"(func.func @heads(%q: tensor<2x5x4x32xf32>, %k: tensor<2x5x2x32xf32>, %v: tensor<10x64xf32>, %c: tensor<5x16xf32>, %s: tensor<5x16xf32>)
        -> (tensor<10x256xf32>, tensor<10x64xf32>) {
    %a = graph.rope %q, %c, %s {inverse} : tensor<2x5x4x32xf32>, tensor<5x16xf32>
    %b = graph.rope %k, %c, %s {inverse} : tensor<2x5x2x32xf32>, tensor<5x16xf32>
    %a2 = graph.reshape %a : tensor<2x5x4x32xf32> -> tensor<10x128xf32>
    %b2 = graph.reshape %b : tensor<2x5x2x32xf32> -> tensor<10x64xf32>
    %y = graph.concat %a2, %b2, %v axis 1 : tensor<10x128xf32>, tensor<10x64xf32>, tensor<10x64xf32> -> tensor<10x256xf32>
    %n = graph.neg %v : tensor<10x64xf32>
    return %y, %n : tensor<10x256xf32>, tensor<10x64xf32>
  })");
}

TEST(CodegenRow, ReductionsOverAnyAxes) {
  expectLikeReference(
      R"(func.func @reductions(%x: tensor<4x6x20xf32>) -> (tensor<4x1x20xf32>, tensor<4x1x1xf32>, tensor<1x1x1xf32>, tensor<1x6x1xf32>) {
    %a = graph.reduce_sum %x, [1] : tensor<4x6x20xf32> -> tensor<4x1x20xf32>
    %b = graph.reduce_max %x, [1, 2] : tensor<4x6x20xf32> -> tensor<4x1x1xf32>
    %c = graph.reduce_sum %x, [0, 1, 2] : tensor<4x6x20xf32> -> tensor<1x1x1xf32>
    %d = graph.reduce_sum %x, [0, 2] : tensor<4x6x20xf32> -> tensor<1x6x1xf32>
    return %a, %b, %c, %d : tensor<4x1x20xf32>, tensor<4x1x1xf32>, tensor<1x1x1xf32>, tensor<1x6x1xf32>
  })");
}

TEST(CodegenRow, MaskFromIota) {
  expectLikeReference(
      R"(func.func @mask(%x: tensor<2x9x9xf32>) -> (tensor<2x9x9xf32>, tensor<2x9x9xi1>, tensor<2x9x9xi64>) {
    %i = graph.iota 1 : tensor<2x9x9xi32>
    %j = graph.iota 2 : tensor<2x9x9xi32>
    %v = graph.compare le, %j, %i : tensor<2x9x9xi32> -> tensor<2x9x9xi1>
    %h = graph.constant dense<0xFF800000> : tensor<2x9x9xf32>
    %m = graph.select %v, %x, %h : tensor<2x9x9xi1>, tensor<2x9x9xf32>
    %y = graph.softmax %m : tensor<2x9x9xf32>
    %k = graph.cast %j : tensor<2x9x9xi32> -> tensor<2x9x9xi64>
    return %y, %v, %k : tensor<2x9x9xf32>, tensor<2x9x9xi1>, tensor<2x9x9xi64>
  })");
}

TEST(CodegenRow, Scalars) {
  expectLikeReference(
      R"(func.func @clip(%a: tensor<f32>, %b: tensor<f32>, %step: tensor<16xf32>) -> (tensor<f32>, tensor<i1>, tensor<f32>) {
    %s = graph.mul %a, %a : tensor<f32>
    %t = graph.mul %b, %b : tensor<f32>
    %u = graph.add %s, %t : tensor<f32>
    %n = graph.sqrt %u : tensor<f32>
    %c = graph.slice %step, [10] : tensor<16xf32> -> tensor<1xf32>
    %k = graph.reshape %c : tensor<1xf32> -> tensor<f32>
    %q = graph.div %k, %n : tensor<f32>
    %one = graph.constant dense<1.0> : tensor<f32>
    %m = graph.minimum %q, %one : tensor<f32>
    %limit = graph.constant dense<3.0e38> : tensor<f32>
    %f = graph.compare le, %n, %limit : tensor<f32> -> tensor<i1>
    return %n, %f, %m : tensor<f32>, tensor<i1>, tensor<f32>
  })");
}

TEST(CodegenRow, UnknownOpsAreRefused) {
  Group group(R"(func.func @product(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = graph.matmul %a, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  })");
  std::string message;
  mlir::ScopedDiagnosticHandler handler(group.fusion()->getContext(),
                                        [&](mlir::Diagnostic &diagnostic) { message = diagnostic.str(); });
  KernelModule module(kernelContext());
  EXPECT_TRUE(succeeded(module.addGroup(group.fusion())));
  EXPECT_TRUE(failed(module.emit({"x86-64-v3"})));
  EXPECT_EQ(message, "'graph.matmul' op is not an op that kernels are made of");
}

TEST(CodegenRow, EqualGroupsShareAKernel) {
  auto text = [](const std::string &name, const std::string &rows) {
    return "func.func @" + name + "(%x: tensor<" + rows + "x8xf32>) -> tensor<" + rows +
           "x8xf32> {\n %y = graph.exp %x : tensor<" + rows + "x8xf32>\n return %y : tensor<" + rows + "x8xf32> }";
  };
  Group first(text("layer", "4")), same(text("other_layer", "4")), larger(text("layer", "5"));
  KernelModule module(kernelContext());
  auto a = module.addGroup(first.fusion()), b = module.addGroup(same.fusion()), c = module.addGroup(larger.fusion());
  ASSERT_TRUE(succeeded(a) && succeeded(b) && succeeded(c));
  EXPECT_EQ(a->kernels[0].name, "layer");
  EXPECT_EQ(b->kernels[0].name, "layer");
  EXPECT_EQ(c->kernels[0].name, "layer_2");
}

TEST(CodegenRow, AVariantThatAddsHasNoGroupsName) {
  auto text = [](const std::string &name, const std::string &op) {
    return "func.func @" + name + "(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n %y = graph." + op +
           " %x : tensor<4x8xf32>\n return %y : tensor<4x8xf32> }";
  };
  Group both(text("exp_add", "exp")), first(text("exp", "neg"));
  KernelModule module(kernelContext());
  ASSERT_TRUE(succeeded(module.addGroup(both.fusion(), /*withAdd=*/true)));
  ASSERT_TRUE(succeeded(module.addGroup(first.fusion(), /*withAdd=*/true)));
  EXPECT_TRUE(succeeded(module.emit({"x86-64-v3"})));
}
