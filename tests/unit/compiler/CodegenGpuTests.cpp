// Kernels for GPUs: what they compute, on the SIMT engine, and what the machine code looks like.
#include "KernelHarness.h"
#include "Text.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "compiler/Codegen/EmitCubin.h"
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

// The other Codegen tests run on the engine too (expectLikeReference); here is what only GPUs have.

TEST(CodegenGpu, RowsOfAllLengths) {
  // One thread, part of a warp, warps, a whole block, and rows that do not fit registers.
  for (const char *shape :
       {"300x1", "70x6", "9x20", "5x64", "3x300", "4x1000", "2x3x2048", "2x5001", "2x9000", "1x70000"})
    expectLikeReference("func.func @softmax(%x: tensor<" + std::string(shape) + "xf32>) -> tensor<" + shape +
                            "xf32> {\n %y = graph.softmax %x : tensor<" + shape + "xf32>\n return %y : tensor<" +
                            shape + "xf32> }",
                        5e-6);
}

TEST(CodegenGpu, ColumnSumsOfAllShapes) {
  for (const char *shape : {"64x4", "33x37", "200x256", "40x3000", "70x6000"}) {
    std::string columns = std::string(shape).substr(std::string(shape).find('x') + 1);
    expectLikeReference("func.func @norm_grad(%x: tensor<" + std::string(shape) + "xf32>, %w: tensor<" + columns +
                            "xf32>, %d: tensor<" + shape + "xf32>) -> (tensor<" + shape + "xf32>, tensor<" + columns +
                            "xf32>) {\n %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<" + shape +
                            "xf32>, tensor<" + columns + "xf32>\n return %a, %b : tensor<" + shape + "xf32>, tensor<" +
                            columns + "xf32> }",
                        2e-5);
  }
}

TEST(CodegenGpu, HeadsAndRowsInOneKernel) {
  // Rows of heads within rows of tokens: several heads at once, the last turn of them not full.
  expectLikeReference(
      R"(func.func @heads(%x: tensor<7x3x16xf32>, %y: tensor<7x256xf32>) -> (tensor<7x3x16xf32>, tensor<7x256xf32>) {
    %a = graph.softmax %x : tensor<7x3x16xf32>
    %b = graph.softmax %y : tensor<7x256xf32>
    return %a, %b : tensor<7x3x16xf32>, tensor<7x256xf32>
  })");
}

TEST(CodegenGpu, ASumThatNoRowChangesBesideColumnSums) {
  expectLikeReference(
      R"(func.func @scaled(%x: tensor<70x48xf32>, %w: tensor<48xf32>) -> (tensor<70x48xf32>, tensor<48xf32>) {
    %s = graph.reduce_sum %w, [0] : tensor<48xf32> -> tensor<1xf32>
    %b = graph.broadcast %s : tensor<1xf32> -> tensor<70x48xf32>
    %y = graph.mul %x, %b : tensor<70x48xf32>
    %c = graph.reduce_sum %y, [0] : tensor<70x48xf32> -> tensor<1x48xf32>
    %d = graph.reshape %c : tensor<1x48xf32> -> tensor<48xf32>
    return %y, %d : tensor<70x48xf32>, tensor<48xf32>
  })",
      2e-5);
}

/// lanes[i] joined with its neighbours until one is left.
static float foldNeighbours(std::vector<float> lanes) {
  for (size_t step = 1; step < lanes.size(); step *= 2)
    for (size_t i = 0; i + step < lanes.size(); i += 2 * step)
      lanes[i] += lanes[i + step];
  return lanes[0];
}

TEST(CodegenGpu, RowSumsHaveTheDocumentedOrder) {
  struct Case {
    int64_t size;
    size_t lanes;
  };
  for (auto [size, lanes] : {Case{37, 64}, {128, 128}, {300, 256}, {1000, 512}, {4096, 2048}, {70000, 4096}}) {
    std::string type = "tensor<3x" + std::to_string(size) + "xf32>";
    Group group("func.func @sum(%x: " + type + ") -> tensor<3x1xf32> {\n %y = graph.reduce_sum %x, [1] : " + type +
                " -> tensor<3x1xf32>\n return %y : tensor<3x1xf32> }");
    Bytes x = toBytes(randomOperand(mlir::cast<mlir::RankedTensorType>(group.original().getArgumentTypes()[0]), 3));
    std::vector<Bytes> result = runGroupOnGpu(group.fusion(), {x});
    ASSERT_EQ(result.size(), 1u);
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<float> sums(lanes);
      for (int64_t c = 0; c < size; ++c)
        sums[c % lanes] += reinterpret_cast<float *>(x.data())[row * size + c];
      EXPECT_EQ(reinterpret_cast<float *>(result[0].data())[row], foldNeighbours(sums)) << size;
    }
  }
}

TEST(CodegenGpu, SumsOfSquaresHaveTheDocumentedOrder) {
  Group group(R"(func.func @norm(%x: tensor<?xf32>) -> tensor<f32> {
    %y = graph.sum_squares %x : tensor<?xf32> -> tensor<f32>
    return %y : tensor<f32>
  })");
  mlir::MLIRContext context;
  for (int64_t length : {1, 63, 4096, 4097, 12345}) {
    auto type = mlir::RankedTensorType::get({length}, mlir::Float32Type::get(&context));
    Bytes x = toBytes(randomOperand(type, 7));
    RunOptions options;
    options.length = length;
    std::vector<Bytes> result = runGroupOnGpu(group.fusion(), {x}, options);
    ASSERT_EQ(result.size(), 1u);
    std::vector<float> blocks(1024);
    for (int64_t block = 0; block * 4096 < length; ++block) {
      std::vector<float> lanes(1024);
      for (int64_t i = block * 4096; i < std::min(length, (block + 1) * 4096); ++i) {
        float value = reinterpret_cast<float *>(x.data())[i];
        lanes[i % 1024] += value * value;
      }
      blocks[block % 1024] += foldNeighbours(lanes);
    }
    EXPECT_EQ(*reinterpret_cast<float *>(result[0].data()), foldNeighbours(blocks)) << length;
  }
}

TEST(CodegenGpu, FlatKernelsOfAnyLength) {
  Group group(R"(func.func @axpy(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi1>) {
    %e = graph.exp %x : tensor<?xf32>
    %z = graph.add %e, %y : tensor<?xf32>
    %i = graph.compare lt, %x, %y : tensor<?xf32> -> tensor<?xi1>
    return %z, %i : tensor<?xf32>, tensor<?xi1>
  })");
  mlir::MLIRContext context;
  for (int64_t length : {1, 3, 4, 4094, 4096, 8193}) {
    auto type = mlir::RankedTensorType::get({length}, mlir::Float32Type::get(&context));
    std::vector<Bytes> arguments{toBytes(randomOperand(type, 1)), toBytes(randomOperand(type, 2))};
    RunOptions options;
    options.length = length;
    EXPECT_EQ(runGroupOnGpu(group.fusion(), arguments, options), runGroup(group.fusion(), arguments, options))
        << length;
  }
}

TEST(CodegenGpu, TheAddVariantAddsToItsResults) {
  Group group(
      R"(func.func @rms_norm_grad(%x: tensor<75x48xf32>, %w: tensor<48xf32>, %d: tensor<75x48xf32>) -> (tensor<75x48xf32>, tensor<48xf32>) {
    %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<75x48xf32>, tensor<48xf32>
    return %a, %b : tensor<75x48xf32>, tensor<48xf32>
  })");
  std::vector<Bytes> arguments;
  for (auto [number, type] : llvm::enumerate(group.original().getArgumentTypes()))
    arguments.push_back(toBytes(randomOperand(mlir::cast<mlir::RankedTensorType>(type), number + 1)));
  RunOptions adding;
  adding.add = true;
  std::vector<Bytes> plain = runGroupOnGpu(group.fusion(), arguments),
                     added = runGroupOnGpu(group.fusion(), arguments, adding);
  ASSERT_EQ(plain.size(), added.size());
  for (size_t i = 0; i < plain.size(); ++i)
    for (size_t at = 0; at < plain[i].size(); at += 4)
      ASSERT_EQ(1.0f + *reinterpret_cast<float *>(&plain[i][at]), *reinterpret_cast<float *>(&added[i][at]));
}

/// The forms of a Llama step at the sizes of an 8B model.
static const char *const kLargeGroups[] = {
    R"(func.func @rms_norm(%x: tensor<64x4096xf32>, %w: tensor<4096xf32>) -> tensor<64x4096xf32> {
    %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<64x4096xf32>, tensor<4096xf32>
    return %y : tensor<64x4096xf32> })",
    R"(func.func @rms_norm_grad(%x: tensor<64x4096xf32>, %w: tensor<4096xf32>, %d: tensor<64x4096xf32>) -> (tensor<64x4096xf32>, tensor<4096xf32>) {
    %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<64x4096xf32>, tensor<4096xf32>
    return %a, %b : tensor<64x4096xf32>, tensor<4096xf32> })",
    R"(func.func @swiglu(%g: tensor<64x14336xf32>, %u: tensor<64x14336xf32>) -> tensor<64x14336xf32> {
    %y = graph.swiglu %g, %u : tensor<64x14336xf32>
    return %y : tensor<64x14336xf32> })",
    R"(func.func @swiglu_grad(%g: tensor<64x14336xf32>, %u: tensor<64x14336xf32>, %d: tensor<64x14336xf32>) -> (tensor<64x14336xf32>, tensor<64x14336xf32>) {
    %a, %b = graph.swiglu_grad %g, %u, %d : tensor<64x14336xf32>
    return %a, %b : tensor<64x14336xf32>, tensor<64x14336xf32> })",
    R"(func.func @rope(%x: tensor<1x64x32x128xf32>, %c: tensor<64x64xf32>, %s: tensor<64x64xf32>) -> tensor<1x64x32x128xf32> {
    %y = graph.rope %x, %c, %s : tensor<1x64x32x128xf32>, tensor<64x64xf32>
    return %y : tensor<1x64x32x128xf32> })",
    R"(func.func @add(%x: tensor<64x4096xf32>, %y: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
    %z = graph.add %x, %y : tensor<64x4096xf32>
    return %z : tensor<64x4096xf32> })",
    R"(func.func @sum_squares(%x: tensor<?xf32>) -> tensor<f32> {
    %y = graph.sum_squares %x : tensor<?xf32> -> tensor<f32>
    return %y : tensor<f32> })",
    R"(func.func @adamw(%p: tensor<?xf32>, %g: tensor<?xf32>, %m: tensor<?xf32>, %v: tensor<?xf32>, %h: tensor<16xf32>, %s: tensor<f32>, %ok: tensor<i1>)
      -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    %a, %b, %c = graph.optimizer_step "adamw" %p, %g keeps(%m, %v) by(%h, %s, %ok) decayed 7000
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    return %a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32> })"};

namespace {
/// The large groups' kernels in one module.
struct LargeKernels {
  KernelModule module{kernelContext(), {/*host=*/false, /*device=*/true}};
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<KernelDescription> kernels;

  LargeKernels() {
    for (const char *text : kLargeGroups) {
      groups.push_back(std::make_unique<Group>(text));
      auto lowered = module.addGroup(groups.back()->fusion());
      EXPECT_TRUE(succeeded(lowered)) << text;
      if (succeeded(lowered))
        kernels.insert(kernels.end(), lowered->kernels.begin(), lowered->kernels.end());
    }
  }
};
} // namespace

TEST(CodegenGpu, PtxHasVectorAccessesAndNoLocalMemory) {
  LargeKernels large;
  auto images = large.module.emit({"sm_90a"});
  ASSERT_TRUE(mlir::succeeded(images));
  llvm::StringRef ptx = images->front().ptx;
  EXPECT_TRUE(ptx.contains(".target sm_90a"));
  for (const char *bad :
       {".local", "atom.", "\tred.", "call.uni", "div.full", "div.approx", "sqrt.approx", ".ftz", "ex2"})
    EXPECT_FALSE(ptx.contains(bad)) << bad;
  for (const KernelDescription &kernel : large.kernels) {
    llvm::StringRef body = kernelText(ptx, kernel.name);
    ASSERT_FALSE(body.empty()) << kernel.name;
    EXPECT_TRUE(body.contains(".reqntid " + std::to_string(images->front().launches.at(kernel.name).blockThreads)))
        << kernel.name;
    if (kernel.form == "fold" && kernel.flat)
      continue; // strides over the sums of blocks
    EXPECT_TRUE(body.contains("ld.global.v4")) << kernel.name;
    EXPECT_TRUE(body.contains("st.global.v4") || kernel.form == "flat_reduce") << kernel.name;
    // Scalars stand at the ends of flat ranges, in what all threads share, and in sums of blocks.
    if (kernel.form == "row") {
      EXPECT_FALSE(body.contains("ld.global.f32") || body.contains("ld.global.b32")) << kernel.name;
      EXPECT_FALSE(body.contains("st.global.f32") || body.contains("st.global.b32")) << kernel.name;
    }
  }
}

TEST(CodegenGpu, CubinsForEveryArchitectureKeepEverythingInRegisters) {
  if (codegen::findPtxas().empty())
    GTEST_SKIP() << "no ptxas on this machine: registers, spills and cubins were not looked at";
  LargeKernels large;
  auto images = large.module.emit({"sm_80", "sm_90a", "sm_100a"});
  ASSERT_TRUE(mlir::succeeded(images));
  for (const KernelImage &image : *images) {
    EXPECT_EQ(image.bytes.substr(1, 3), "ELF") << image.target;
    for (const KernelDescription &kernel : large.kernels) {
      auto found = image.resources.find(kernel.name);
      ASSERT_NE(found, image.resources.end()) << kernel.name;
      EXPECT_EQ(found->second.localBytes, 0u) << kernel.name << " on " << image.target;
      EXPECT_GT(found->second.registers, 0u);
      if (kernel.form == "fold")
        continue; // small ones
      // A quarter of the 2048 threads of a multiprocessor: with two loads of 16 bytes each that is 16 KiB on the way,
      // about what hides the memory's latency. A thread's registers come in eights, a block's shared memory out of
      // 100 KiB.
      const DeviceLaunch &launch = image.launches.at(kernel.name);
      uint64_t threads = launch.blockThreads, registers = llvm::alignTo(found->second.registers, 8);
      uint64_t blocks = std::min<uint64_t>(65536 / (registers * threads), 2048 / threads);
      if (launch.sharedBytes)
        blocks = std::min<uint64_t>(blocks, (100 << 10) / launch.sharedBytes);
      EXPECT_GE(blocks * threads, 512u) << kernel.name << " on " << image.target << ": " << registers << " registers";
    }
  }
}

TEST(CodegenGpu, EveryTargetIsAssembled) {
  LargeKernels large;
  std::vector<llvm::StringRef> names;
  for (const DeviceTarget &target : deviceTargets())
    names.push_back(target.name);
  auto images = large.module.emit(names);
  ASSERT_TRUE(mlir::succeeded(images));
  ASSERT_EQ(images->size(), names.size());
  for (const KernelImage &image : *images) {
    const DeviceTarget &target = *findDeviceTarget(image.target);
    const std::string version = std::to_string(target.ptx / 10) + "." + std::to_string(target.ptx % 10);
    EXPECT_NE(image.ptx.find(".version " + version), std::string::npos) << image.target;
    EXPECT_NE(image.ptx.find(".target " + image.target), std::string::npos) << image.target;
    EXPECT_EQ(codegen::findPtxas().empty(), image.cudaVersion == 0) << image.target;
    if (!image.cudaVersion)
      continue;
    ASSERT_GE(image.cudaVersion, target.assembler) << "this machine's ptxas is too old for " << image.target;
    EXPECT_EQ(image.bytes.substr(1, 3), "ELF") << image.target;
    for (const auto &[name, taken] : image.resources)
      EXPECT_EQ(taken.localBytes, 0u) << name << " on " << image.target;
  }
  EXPECT_EQ(findDeviceTarget("sm_90"), nullptr);
  EXPECT_TRUE(isDeviceTarget("simt") && isDeviceTarget("sm_121a") && !isDeviceTarget("host"));
}

TEST(CodegenGpu, KernelsWaitBeforeTheyTouchMemory) {
  LargeKernels large;
  std::vector<llvm::StringRef> names{"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a", "simt"};
  auto images = large.module.emit(names);
  ASSERT_TRUE(mlir::succeeded(images));
  for (const KernelImage &image : *images) {
    const bool knowsHow = image.target != "sm_80" && image.target != "sm_89";
    EXPECT_EQ(image.waits, knowsHow) << image.target;
    EXPECT_EQ(llvm::StringRef(image.ptx).contains("griddepcontrol"), knowsHow && image.target != "simt")
        << image.target;
    if (!knowsHow || image.target == "simt")
      continue;
    for (const auto &[kernel, launch] : image.launches) {
      const llvm::StringRef body = kernelText(image.ptx, kernel);
      const size_t wait = body.find("griddepcontrol.wait"), next = body.find("griddepcontrol.launch_dependents");
      ASSERT_NE(wait, llvm::StringRef::npos) << kernel;
      EXPECT_LT(wait, next) << kernel;
      EXPECT_EQ(body.count("griddepcontrol"), 2u) << kernel;
      for (const char *access :
           {"ld.global", "st.global", "ld.shared", "st.shared", "cp.async", "prefetch", "atom", "bra", "bar."})
        EXPECT_GT(body.find(access), next) << kernel << ": " << access;
    }
  }
}

namespace {
/// The kernels of library calls at the sizes of an 8B model.
std::vector<KernelDescription> addLibraryCalls(KernelModule &module) {
  mlir::MLIRContext context;
  const mlir::Type f32 = mlir::Float32Type::get(&context), bf16 = mlir::BFloat16Type::get(&context),
                   f16 = mlir::Float16Type::get(&context);
  std::vector<KernelDescription> kernels{module.addGpuGather(8192), module.addGpuNarrow(bf16), module.addGpuNarrow(f16),
                                         module.addGpuLossSum(),
                                         module.addGpuCrossEntropyRows(/*training=*/false, bf16, 128256)};
  for (mlir::Type type : {f32, bf16, f16}) {
    kernels.push_back(module.addGpuScatterAdd(4096, type));
    kernels.push_back(module.addGpuCrossEntropyRows(/*training=*/true, type, 128256));
  }
  return kernels;
}
} // namespace

TEST(CodegenGpu, LibraryCallsHaveVectorAccessesAndNoLocalMemory) {
  KernelModule module(kernelContext(), {/*host=*/false, /*device=*/true});
  std::vector<KernelDescription> kernels = addLibraryCalls(module);
  auto images = module.emit({"sm_90a"});
  ASSERT_TRUE(mlir::succeeded(images));
  llvm::StringRef ptx = images->front().ptx;
  for (const char *bad : {".local", "atom.", "\tred.", "call.uni", "div.full", "div.approx", ".ftz", "ex2"})
    EXPECT_FALSE(ptx.contains(bad)) << bad;
  for (const KernelDescription &kernel : kernels) {
    llvm::StringRef body = kernelText(ptx, kernel.name);
    ASSERT_FALSE(body.empty()) << kernel.name;
    EXPECT_FALSE(kernel.onHost);
    EXPECT_TRUE(body.contains(".reqntid " + std::to_string(kernel.device.blockThreads))) << kernel.name;
    if (kernel.name == "gpu_loss_sum")
      continue; // one float a row
    EXPECT_TRUE(body.contains("ld.global.v4")) << kernel.name;
    EXPECT_EQ(body.contains("st.global.v4"), !llvm::StringRef(kernel.name).contains("rows_loss")) << kernel.name;
  }
}

TEST(CodegenGpu, LibraryCallsStayInRegisters) {
  if (codegen::findPtxas().empty())
    GTEST_SKIP() << "no ptxas on this machine: registers and spills were not looked at";
  KernelModule module(kernelContext(), {/*host=*/false, /*device=*/true});
  std::vector<KernelDescription> kernels = addLibraryCalls(module);
  auto images = module.emit({"sm_80", "sm_90a", "sm_100a"});
  ASSERT_TRUE(mlir::succeeded(images));
  for (const KernelImage &image : *images)
    for (const KernelDescription &kernel : kernels) {
      auto found = image.resources.find(kernel.name);
      ASSERT_NE(found, image.resources.end()) << kernel.name;
      EXPECT_EQ(found->second.localBytes, 0u) << kernel.name << " on " << image.target;
      // A multiprocessor has two blocks, but one of the rows of the loss: more would not stay in the L2 cache.
      const uint64_t registers = found->second.registers * kernel.device.blockThreads, half = 32768;
      const bool isLoss = llvm::StringRef(kernel.name).starts_with("gpu_cross_entropy_rows");
      EXPECT_LE(registers, isLoss ? 2 * half : half) << kernel.name << " on " << image.target;
      if (isLoss && !llvm::StringRef(kernel.name).contains("_loss"))
        EXPECT_GT(registers, half) << kernel.name << " on " << image.target;
    }
}
