// What kernels that quantise to fp8 consist of: numbers are converted in pairs by one instruction where the target has
// it, and the code for an element stays short.
#include "compiler/Codegen/Codegen.h"
#include "tests/unit/compiler/MachineCode.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace mlir;
using namespace ztc;

namespace {

/// Elements that a thread quantises: runtime/Core/Fp8.h.
constexpr size_t kElements = 16;
/// Instructions in the code for each of them: all of the kernel, with its search for the scale and the slow paths of
/// two divisions.
constexpr double kMostInstructions = 36;

struct Quantizers {
  KernelModule module;
  std::vector<std::string> names;

  explicit Quantizers(MLIRContext &context) : module(context, {/*host=*/false, /*device=*/true}) {
    for (bool isE4m3 : {true, false})
      for (auto [byRows, byColumns] : {std::pair(true, false), {false, true}, {true, true}})
        names.push_back(module.addGpuQuantizeFp8(isE4m3, byRows, byColumns, BFloat16Type::get(&context)).name);
  }
};

StringRef fp8Body(StringRef ptx, const std::string &kernel) {
  StringRef body = ptx.drop_front(std::min(ptx.size(), ptx.find(".entry " + kernel + "(")));
  return body.take_front(body.find("\n}"));
}

TEST(Fp8Code, PairsAreConvertedByOneInstruction) {
  MLIRContext context;
  Quantizers quantizers(context);
  auto images = quantizers.module.emit({"sm_80", "sm_89", "sm_90a", "sm_100a"});
  ASSERT_TRUE(succeeded(images));
  for (const KernelImage &image : *images)
    for (const std::string &name : quantizers.names) {
      SCOPED_TRACE(name + " on " + image.target);
      StringRef body = fp8Body(image.ptx, name);
      ASSERT_FALSE(body.empty());
      const char *conversion =
          StringRef(name).contains("e4m3") ? "cvt.rn.satfinite.e4m3x2.f32" : "cvt.rn.satfinite.e5m2x2.f32";
      EXPECT_EQ(body.count(conversion), image.target == "sm_80" ? 0 : kElements / 2); // there, integer arithmetic
      EXPECT_FALSE(body.contains(".local"));
    }
}

TEST(Fp8Code, InstructionsForAnElement) {
  std::string nvdisasm = findNvdisasm(), error;
  if (nvdisasm.empty())
    GTEST_SKIP() << "no nvdisasm (cmake/get-nvdisasm.sh)";
  MLIRContext context;
  Quantizers quantizers(context);
  auto images = quantizers.module.emit({"sm_90a"});
  ASSERT_TRUE(succeeded(images));
  if (images->front().cudaVersion == 0)
    GTEST_SKIP() << "no ptxas, and so no machine code";
  const auto kernels = disassemble(nvdisasm, images->front().bytes, error);
  EXPECT_EQ(error, "");
  for (const std::string &name : quantizers.names) {
    SCOPED_TRACE(name);
    auto kernel = kernels.find(name);
    ASSERT_NE(kernel, kernels.end());
    const double each = double(kernel->second.instructions.size()) / kElements;
    RecordProperty(name, std::to_string(each));
    EXPECT_LE(each, kMostInstructions);
    EXPECT_EQ(kernel->second.count(kernel->second.all(), {"LDL", "STL"}), 0u);
  }
}

/// Of the 64 codes of a thread: all loads before what waits for them, whole vectors written, nothing outside registers
/// and shared memory.
TEST(Fp8Code, CodesAreTransposedInSharedMemory) {
  const std::string nvdisasm = findNvdisasm();
  std::string error;
  if (nvdisasm.empty())
    GTEST_SKIP() << "no nvdisasm (cmake/get-nvdisasm.sh)";
  MLIRContext context;
  KernelModule module(context, {/*host=*/false, /*device=*/true});
  const std::string name = module.addGpuQuantizeFp8(true, false, true, IntegerType::get(&context, 8)).name;
  auto images = module.emit({"sm_90a"});
  ASSERT_TRUE(succeeded(images));
  if (images->front().cudaVersion == 0)
    GTEST_SKIP() << "no ptxas, and so no machine code";
  const auto kernels = disassemble(nvdisasm, images->front().bytes, error);
  EXPECT_EQ(error, "");
  const auto kernel = kernels.find(name);
  ASSERT_NE(kernel, kernels.end());
  const auto all = kernel->second.all();
  EXPECT_EQ(kernel->second.count(all, {"LDG"}), 16u);
  EXPECT_EQ(std::ranges::count_if(kernel->second.instructions,
                                  [](const MachineInstruction &x) { return x.name() == "STG" && x.bytes() == 16; }),
            4);
  EXPECT_EQ(kernel->second.count(all, {"STS"}), 16u);
  EXPECT_EQ(kernel->second.count(all, {"LDS"}), 16u);
  EXPECT_EQ(kernel->second.count(all, {"LDL", "STL"}), 0u);
  RecordProperty("instructions", int(kernel->second.instructions.size()));
  EXPECT_LE(kernel->second.instructions.size(), 64u * 6);
}

} // namespace
