// What is decided about cuDNN without it. Calls are tested in tests/conformance, over a stand-in, and a real library is
// asked by tests/e2e/cudnn-graphs.py.
#include "runtime/Core/LoadModule.h"
#include "runtime/Device/cuda/CudnnGraphs.h"
#include "runtime/Device/cuda/CudnnShape.h"
#include "runtime/Format/CudnnAttention.h"
#include <array>
#include <gmock/gmock.h>

namespace ztc {
namespace {
using testing::HasSubstr;

TEST(Cudnn, VersionsThatAreNotUsed) {
  EXPECT_EQ(cudnnVersionText(92600), "9.26.0");
  EXPECT_EQ(cudnnVersionText(91002), "9.10.2");
  ZtcCudnnAttention forward{}, window{}, grad{}, cut{};
  forward.seq = window.seq = grad.seq = 2048;
  window.window = 64;
  grad.grad = cut.grad = 1;
  cut.seq = 96;
  EXPECT_THAT(cudnnVersionObstacle(90501, forward), HasSubstr("9.6.0 or later"));
  EXPECT_EQ(cudnnVersionObstacle(90600, window), "");
  EXPECT_EQ(cudnnVersionObstacle(91000, forward), "");
  EXPECT_THAT(cudnnVersionObstacle(91001, grad), HasSubstr("gradient has known errors"));
  EXPECT_EQ(cudnnVersionObstacle(91002, grad), "");
  EXPECT_EQ(cudnnVersionObstacle(91400, grad), "");
  EXPECT_THAT(cudnnVersionObstacle(91400, window), HasSubstr("windows"));
  EXPECT_THAT(cudnnVersionObstacle(91400, cut), HasSubstr("multiple of 128"));
  EXPECT_EQ(cudnnVersionObstacle(91600, cut), "");
  cut.documents = 3;
  EXPECT_EQ(cudnnVersionObstacle(91400, cut), "");
}

TEST(Cudnn, WhatItNeverTakes) {
  EXPECT_EQ(cudnnAttentionObstacle(true, 64), nullptr);
  EXPECT_EQ(cudnnAttentionObstacle(true, 256), nullptr);
  EXPECT_THAT(cudnnAttentionObstacle(false, 64), HasSubstr("f32"));
  EXPECT_THAT(cudnnAttentionObstacle(true, 60), HasSubstr("multiple of 8"));
  EXPECT_THAT(cudnnAttentionObstacle(true, 264), HasSubstr("256"));
  EXPECT_EQ(cudnnAttentionObstacle(true, 64, {.packed = true}), nullptr);
  EXPECT_THAT(cudnnAttentionObstacle(true, 40, {.packed = true}), HasSubstr("multiple of 16"));
  EXPECT_THAT(cudnnAttentionObstacle(true, 64, {.softcapped = true}), HasSubstr("softcap"));
}

TEST(Cudnn, NothingIsReservedForWhatItNeverTakes) {
  EXPECT_EQ(gpuAttentionScratchBytes(1, 2048, 32, 8, 64, false, false), 0u);
  EXPECT_EQ(gpuAttentionScratchBytes(1, 2048, 32, 8, 64, false, true), gpuAttentionGradScratchBytes(1, 2048, 32));
  // dq and the heads of dk and dv: 4 and 2 times 2 bytes an element; delta; the turns of 32 blocks a head.
  EXPECT_EQ(gpuAttentionScratchBytes(1, 2048, 32, 8, 64, true, true),
            uint64_t(2048 * 32) * (64 * 8 + 4) + 8 * 32 * 32 + 4096);
}

TEST(Cudnn, OneRowsWorkspaceIsReservedWhereRowsArePacked) {
  // Of 32 documents and 64 more a descriptor each, and where they lie; dq and the heads of dk and dv: 12 bytes an
  // element; delta; the turns of 32 blocks of each document's heads.
  const uint64_t table = 4 * 4 * 36, documents = 512 * 96 + 4096;
  EXPECT_EQ(gpuAttentionScratchBytes(1, 2048, 32, 8, 64, true, false, {.packed = true}), 768 + documents);
  EXPECT_LE(table, 768u);
  EXPECT_EQ(gpuAttentionScratchBytes(1, 2048, 32, 8, 64, true, true, {.packed = true}),
            768 + documents + uint64_t(2048 * 32) * (64 * 12 + 4) + 8 * 32 * 32 * 32);
  EXPECT_EQ(gpuAttentionScratchBytes(1, 2048, 32, 8, 40, true, true, {.packed = true}),
            gpuAttentionGradScratchBytes(1, 2048, 32));
}

TEST(Cudnn, ADocumentIsASequence) {
  plan::Attention attention;
  attention.set_batch(3);
  attention.set_seq(1000);
  attention.set_heads(4);
  attention.set_kv_heads(2);
  attention.set_head_dim(16);
  const ZtcCudnnAttention shape = cudnnPackedShape(attention, {.most = 7, .longest = 300});
  EXPECT_EQ(shape.batch, 1) << "a row at a time";
  EXPECT_EQ(shape.documents, 7);
  EXPECT_EQ(shape.longest, 384);
  EXPECT_EQ(cudnnPackedShape(attention, {.most = 7, .longest = 990}).longest, 1000);
}

TEST(Cudnn, PartsOfACallDivideIt) {
  plan::Attention attention;
  attention.set_batch(4);
  attention.set_seq(32);
  attention.set_heads(12);
  attention.set_kv_heads(6);
  attention.set_head_dim(16);
  const ZtcCudnnAttention whole = cudnnShape(attention);
  std::vector<std::array<int64_t, 3>> parts;
  for (const ZtcCudnnAttention &part : cudnnParts(whole)) {
    parts.push_back({part.batch, part.heads, part.kvHeads});
    EXPECT_EQ(part.strides[ZTC_CUDNN_Q].batch, whole.strides[ZTC_CUDNN_Q].batch);
  }
  EXPECT_THAT(parts, testing::ElementsAre(std::array<int64_t, 3>{4, 12, 6}, std::array<int64_t, 3>{2, 12, 6},
                                          std::array<int64_t, 3>{1, 12, 6}, std::array<int64_t, 3>{1, 6, 3},
                                          std::array<int64_t, 3>{1, 4, 2}, std::array<int64_t, 3>{1, 2, 1}));
}

TEST(Cudnn, ScoresOfAPart) {
  // Llama-3-8B at 8192 tokens: of a key/value head the scores of its four query heads, their dk and dv in bf16, delta.
  EXPECT_EQ(cudnnScoresWorkspaceBytes(1, 8192, 4, 1, 128),
            uint64_t(4) * 8192 * 8192 * 2 + uint64_t(4) * 4 * 8192 * 128 + uint64_t(4) * 4 * 8192 + 4096);
  EXPECT_EQ(cudnnScoresWorkspaceBytes(2, 100, 3, 3, 16), uint64_t(2) * 3 * 128 * 128 * 2 + 2560 + 4096)
      << "whole tiles; without groups no dk and dv beside the results";
}

TEST(Cudnn, ShapesAreThoseOfThePlan) {
  plan::Attention attention;
  attention.set_batch(2);
  attention.set_seq(33);
  attention.set_heads(4);
  attention.set_kv_heads(2);
  attention.set_head_dim(16);
  attention.set_window(7);
  attention.set_type(plan::F16);
  EXPECT_EQ(cudnnShape(attention).window, 0) << "without causal a window means nothing";
  attention.set_causal(true);
  const ZtcCudnnAttention shape = cudnnShape(attention);
  EXPECT_EQ(shape.window, 7);
  EXPECT_EQ(shape.type, ZTC_CUDNN_F16);
  EXPECT_EQ(shape.strides[ZTC_CUDNN_DOUT].batch, 33 * 4 * 16);
  EXPECT_EQ(shape.strides[ZTC_CUDNN_DK].batch, 33 * 2 * 16);
  EXPECT_EQ(shape.strides[ZTC_CUDNN_K].row, 2 * 16);
  EXPECT_EQ(shape.strides[ZTC_CUDNN_Q].head, 16);
}

TEST(LoadModule, SaysWhereItLooked) {
  const auto candidates = moduleCandidates("libztc-none.so", "", "/no/such/folder");
  auto opened = openModuleTable(candidates, "ztcNone", 1);
  EXPECT_EQ(opened.status().code(), StatusCode::NotFound);
  EXPECT_THAT(opened.status().message(),
              HasSubstr("/no/such/folder/libztc-none.so or /no/such/folder/../lib/libztc-none.so"));
  EXPECT_EQ(moduleCandidates("libztc-none.so", "/a/file.so", "/no"), std::vector<std::string>{"/a/file.so"});
}

} // namespace
} // namespace ztc
