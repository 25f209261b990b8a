// Attention's kernels for GPUs: what they compute, on the SIMT engine.
#include "KernelHarness.h"
#include "Text.h"
#include "compiler/Codegen/EmitCubin.h"
#include "tests/conformance/AttentionReference.h"
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

namespace {
mlir::Type typeOf(plan::DataType type) {
  return type == plan::BF16  ? mlir::Type(mlir::BFloat16Type::get(&kernelContext()))
         : type == plan::F16 ? mlir::Type(mlir::Float16Type::get(&kernelContext()))
                             : mlir::Type(mlir::Float32Type::get(&kernelContext()));
}

template <typename T> Bytes bytesOf(const std::vector<T> &values) {
  const char *begin = reinterpret_cast<const char *>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(T));
}

Bytes stored(const std::vector<float> &values, plan::DataType type) {
  auto narrowType = narrowDataType(type);
  if (!narrowType)
    return bytesOf(values);
  std::vector<uint16_t> bits(values.size());
  narrow(bits.data(), values.data(), values.size(), *narrowType);
  return bytesOf(bits);
}

std::vector<float> loaded(const Bytes &bytes, plan::DataType type) {
  auto narrowType = narrowDataType(type);
  std::vector<float> values(bytes.size() / (narrowType ? 2 : 4));
  if (narrowType)
    widen(values.data(), reinterpret_cast<const uint16_t *>(bytes.data()), values.size(), *narrowType);
  else
    std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Forward, then the gradient from the forward's own results.
struct AttentionOnGpu {
  KernelModule module{kernelContext(), {/*host=*/false, /*device=*/true}};
  std::unique_ptr<simt::Image> image;
  std::vector<KernelDescription> forward, grad;

  explicit AttentionOnGpu(const AttentionCase &c) {
    AttentionForm form{int64_t(c.dim), c.causal, c.window != 0, typeOf(c.type), !c.documents.empty(), c.softcap != 0};
    forward = module.addGpuAttention(form, /*grad=*/false);
    grad = module.addGpuAttention(form, /*grad=*/true);
    auto images = module.emit({"simt"});
    if (failed(images)) {
      ADD_FAILURE() << module.text();
      return;
    }
    auto loaded = simt::Image::load(images->front().bytes);
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    if (loaded.isOk())
      image = std::move(*loaded);
  }

  /// out, lse, dq, dk, dv.
  std::vector<Bytes> run(const AttentionCase &c, const AttentionReference &reference, simt::Order order) {
    auto tensor = [&](const std::vector<float> &values) { return stored(values, c.type); };
    auto rubbish = [&](size_t count) { return tensor(std::vector<float>(count, NAN)); };
    Bytes q = tensor(reference.q), k = tensor(reference.k), v = tensor(reference.v), dout = tensor(reference.dout);
    Bytes out = rubbish(reference.q.size()), dq = out, dk = rubbish(reference.k.size()), dv = dk;
    Bytes lse = bytesOf(std::vector<float>(reference.lse.size(), NAN)), delta = lse;
    Bytes starts = bytesOf(c.starts());
    std::vector<std::vector<Bytes *>> buffers{{&q, &k, &v, &out, &lse},
                                              {&dout, &out, &delta},
                                              {&q, &k, &v, &dout, &lse, &delta, &dk, &dv},
                                              {&q, &k, &v, &dout, &lse, &delta, &dq}};
    for (size_t i : {0, 2, 3})
      if (!c.documents.empty())
        buffers[i].push_back(&starts);
    std::vector<KernelDescription> kernels = forward;
    kernels.insert(kernels.end(), grad.begin(), grad.end());
    for (auto [kernel, operands] : llvm::zip(kernels, buffers)) {
      const uint64_t rows = kernel.device.unitsPerBlock, heads = &operands == &buffers[2] ? c.kvHeads : c.heads;
      const uint64_t extent = c.batch * heads * ((c.seq + rows - 1) / rows * rows);
      std::vector<int64_t> scalars{int64_t(c.seq), int64_t(c.heads), int64_t(c.kvHeads), int64_t(c.window),
                                   std::bit_cast<int32_t>(float(kReferenceScale))};
      if (c.softcap != 0 && &operands != &buffers[1])
        scalars.push_back(std::bit_cast<int32_t>(float(c.softcap)));
      if (!launchOnGpu(*image, kernel, operands, scalars, int64_t(extent), order))
        return {};
    }
    return {out, lse, dq, dk, dv};
  }
};

void expectAttention(const AttentionCase &c) {
  SCOPED_TRACE(testing::Message() << "B" << c.batch << " S" << c.seq << " H" << c.heads << "/" << c.kvHeads << " D"
                                  << c.dim << " window " << c.window << (c.causal ? " " : " not causal ")
                                  << plan::DataType_Name(c.type) << " cap " << c.softcap);
  AttentionReference reference(c);
  AttentionOnGpu attention(c);
  ASSERT_TRUE(attention.image);
  std::vector<Bytes> results = attention.run(c, reference, simt::Order::Ascending);
  ASSERT_EQ(results.size(), 5u);
  EXPECT_EQ(results, attention.run(c, reference, simt::Order::Descending)) << "results depend on the order of threads";
  // P and the result are rounded; for the gradient dS, the result, and out before delta.
  const double rounding = 2 * roundingError(c.type), gradRounding = 3 * roundingError(c.type);
  EXPECT_LT(relativeError(loaded(results[0], c.type), reference.out), 2e-6 + rounding);
  EXPECT_LT(relativeError(loaded(results[1], plan::F32), reference.lse), 2e-6);
  EXPECT_LT(relativeError(loaded(results[2], c.type), reference.dq), 5e-6 + gradRounding);
  EXPECT_LT(relativeError(loaded(results[3], c.type), reference.dk), 5e-6 + gradRounding);
  EXPECT_LT(relativeError(loaded(results[4], c.type), reference.dv), 5e-6 + gradRounding);
}
} // namespace

TEST(CodegenAttention, Causal) {
  expectAttention({2, 70, 2, 2, 32, 0});
}
TEST(CodegenAttention, GroupedHeads) {
  expectAttention({1, 40, 6, 2, 16, 0});
}
TEST(CodegenAttention, HeadsOfAnySize) {
  for (uint64_t dim : {7, 24, 256, 320})
    expectAttention({1, 37, 2, 1, dim, 0});
}
TEST(CodegenAttention, Window) {
  expectAttention({1, 80, 2, 1, 16, 0, true, 33});
  expectAttention({1, 40, 2, 2, 8, 0, true, 2});
}
TEST(CodegenAttention, NotCausal) {
  expectAttention({1, 65, 2, 2, 16, 0, false});
}
TEST(CodegenAttention, NarrowTypes) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    expectAttention({2, 70, 2, 2, 32, 0, true, 0, type});
    expectAttention({1, 40, 6, 2, 16, 0, true, 0, type});
    expectAttention({1, 37, 3, 1, 24, 0, true, 0, type});
  }
  expectAttention({1, 80, 2, 1, 16, 0, true, 33, plan::BF16});
  expectAttention({1, 65, 2, 2, 16, 0, false, 0, plan::F16});
  expectAttention({1, 70, 2, 1, 128, 0, true, 0, plan::BF16});
}

TEST(CodegenAttention, Documents) {
  expectAttention({2, 70, 4, 2, 16, 0, true, 0, plan::F32, {13, 1, 37}});
  expectAttention({1, 90, 2, 1, 16, 0, true, 20, plan::F32, {31, 33}});
  expectAttention({2, 150, 2, 1, 32, 0, true, 0, plan::BF16, {64, 1, 63}});
  expectAttention({1, 150, 2, 2, 16, 0, true, 33, plan::F16, {70}});
  expectAttention({1, 140, 1, 1, 128, 0, true, 0, plan::BF16, {5, 100}});
}

TEST(CodegenAttention, Softcap) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16}) {
    expectAttention({1, 70, 6, 2, 16, 0, true, 0, type, {}, 0.5});
    expectAttention({1, 65, 2, 2, 16, 0, false, 0, type, {}, 50});
    expectAttention({1, 90, 2, 1, 16, 0, true, 20, type, {31, 33}, 0.5});
  }
  expectAttention({1, 37, 2, 1, 256, 0, true, 0, plan::BF16, {}, 50});
  expectAttention({1, 70, 2, 1, 128, 0, true, 33, plan::BF16, {}, 50});
}

namespace {
/// The kernels of models' heads, in one module.
struct LargeAttention {
  KernelModule module{kernelContext(), {/*host=*/false, /*device=*/true}};
  std::vector<KernelDescription> kernels;

  LargeAttention() {
    for (auto [dim, type] : {std::pair(128, plan::F32), {64, plan::BF16}, {128, plan::BF16}})
      for (bool grad : {false, true})
        for (bool softcapped : {false, true})
          for (const KernelDescription &kernel :
               module.addGpuAttention({.headDim = dim, .type = typeOf(type), .softcapped = softcapped}, grad))
            kernels.push_back(kernel);
  }
};
} // namespace

TEST(CodegenAttention, MachineCode) {
  LargeAttention large;
  auto images = large.module.emit({"sm_80", "sm_90a"});
  ASSERT_TRUE(succeeded(images));
  llvm::StringRef ptx = images->back().ptx;
  for (const char *bad : {".local", "atom.", "\tred.", "call.uni", "div.full", "div.approx", ".ftz"})
    EXPECT_FALSE(ptx.contains(bad)) << bad;
  for (const KernelDescription &kernel : large.kernels) {
    llvm::StringRef body = kernelText(ptx, kernel.name);
    ASSERT_FALSE(body.empty()) << kernel.name;
    bool byMatrices = kernel.name.find("bf16") != std::string::npos && kernel.name.find("delta") == std::string::npos;
    for (const char *instruction :
         {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ldmatrix.sync.aligned.m8n8.x4", "cvt.rn.bf16x2.f32"})
      EXPECT_EQ(body.contains(instruction), byMatrices) << kernel.name << ": " << instruction;
    EXPECT_TRUE(body.contains("ld.global.v4") || body.contains("ld.global.v2")) << kernel.name;
  }
  if (codegen::findPtxas().empty())
    GTEST_SKIP() << "no ptxas on this machine: registers, spills and cubins were not looked at";
  for (const KernelImage &image : *images)
    for (const KernelDescription &kernel : large.kernels) {
      auto found = image.resources.find(kernel.name);
      ASSERT_NE(found, image.resources.end()) << kernel.name;
      EXPECT_EQ(found->second.localBytes, 0u) << kernel.name << " on " << image.target;
      // A thread's registers come in eights, a block's shared memory with 1 KiB of the system's out of 164 KiB.
      uint64_t registers = llvm::alignTo(found->second.registers, 8), shared = kernel.device.sharedBytes;
      uint64_t blocks =
          std::min<uint64_t>(65536 / (registers * kernel.device.blockThreads), (164 << 10) / (shared + (1 << 10)));
      EXPECT_GE(blocks, 2u) << kernel.name << " on " << image.target << ": " << registers << " registers, " << shared
                            << " bytes of shared memory";
      EXPECT_LE(shared, 48u << 10) << kernel.name;
    }
}
