// What kernels that quantise to fp8 consist of: numbers are converted in pairs by one instruction where the target has
// it, and the code for an element stays short.
#include "compiler/Codegen/Codegen.h"
#include "tests/unit/compiler/MachineCode.h"
#include "tests/unit/compiler/Text.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace mlir;
using namespace ztc;

namespace {

/// Elements that a thread makes codes of: runtime/Core/Fp8.h.
constexpr size_t kElements = 16;
/// Instructions in the code for each of them: all of the kernel, with its search for the scale and the slow paths of
/// two divisions.
constexpr double kMostInstructions = 24, kMostTransposing = 32;

class Fp8Code : public testing::Test {
protected:
  /// Kernels that quantise bf16, of both formats.
  std::vector<std::string> addQuantizers() {
    std::vector<std::string> names;
    for (bool isE4m3 : {true, false})
      for (auto [byRows, byColumns] : {std::pair(true, false), {false, true}, {true, true}})
        names.push_back(module.addGpuQuantizeFp8(isE4m3, byRows, byColumns, BFloat16Type::get(&context)).name);
    return names;
  }

  /// The machine code of all kernels on sm_90a; nothing, and the test is left out or fails, where there is none.
  std::map<std::string, MachineKernel> disassembled() {
    const std::string nvdisasm = findNvdisasm();
    auto images = module.emit({"sm_90a"});
    EXPECT_TRUE(succeeded(images));
    unavailable = nvdisasm.empty()                                     ? "no nvdisasm (cmake/get-nvdisasm.sh)"
                  : failed(images) || images->front().cudaVersion == 0 ? "no ptxas, and so no machine code"
                                                                       : "";
    if (!unavailable.empty())
      return {};
    std::string error;
    auto kernels = disassemble(nvdisasm, images->front().bytes, error);
    EXPECT_EQ(error, "");
    return kernels;
  }

  /// What a kernel holds of an instruction that moves so many bytes a thread.
  static long count(const MachineKernel &kernel, StringRef name, unsigned bytes) {
    return std::ranges::count_if(kernel.instructions,
                                 [&](const MachineInstruction &x) { return x.name() == name && x.bytes() == bytes; });
  }

  MLIRContext context;
  KernelModule module{context, {/*host=*/false, /*device=*/true}};
  std::string unavailable; ///< why the kernels were not disassembled; empty: they were
};

TEST_F(Fp8Code, PairsAreConvertedByOneInstruction) {
  const std::vector<std::string> names = addQuantizers();
  auto images = module.emit({"sm_80", "sm_89", "sm_90a", "sm_100a"});
  ASSERT_TRUE(succeeded(images));
  for (const KernelImage &image : *images)
    for (const std::string &name : names) {
      SCOPED_TRACE(name + " on " + image.target);
      StringRef body = test::kernelText(image.ptx, name);
      ASSERT_FALSE(body.empty());
      const char *conversion =
          StringRef(name).contains("e4m3") ? "cvt.rn.satfinite.e4m3x2.f32" : "cvt.rn.satfinite.e5m2x2.f32";
      EXPECT_EQ(body.count(conversion), image.target == "sm_80" ? 0 : kElements / 2); // there, integer arithmetic
      EXPECT_FALSE(body.contains(".local"));
    }
}

/// Threads read and write vectors, neighbours next to each other: single elements cost two thirds of the rate of
/// memory.
TEST_F(Fp8Code, InstructionsAndVectorsForAnElement) {
  const std::vector<std::string> names = addQuantizers();
  const auto kernels = disassembled();
  if (!unavailable.empty())
    GTEST_SKIP() << unavailable;
  for (const std::string &name : names) {
    SCOPED_TRACE(name);
    auto found = kernels.find(name);
    ASSERT_NE(found, kernels.end());
    const MachineKernel &kernel = found->second;
    const bool transposes = !StringRef(name).contains("rows");
    const double each = double(kernel.instructions.size()) / kElements;
    RecordProperty(name, std::to_string(each));
    EXPECT_LE(each, transposes ? kMostTransposing : kMostInstructions);
    EXPECT_EQ(kernel.count(kernel.all(), {"LDL", "STL"}), 0u);
    EXPECT_EQ(count(kernel, "LDG", transposes ? 8 : 16), transposes ? 4 : 2);
    EXPECT_EQ(count(kernel, "STG", 16), 1);
    EXPECT_EQ(count(kernel, "STG", 1) + count(kernel, "STG", 2), 0);
  }
}

/// Of the 64 codes of a thread: all loads before what waits for them, whole vectors written, nothing outside registers
/// and shared memory.
TEST_F(Fp8Code, CodesAreTransposedInSharedMemory) {
  const std::string name = module.addGpuQuantizeFp8(true, false, true, IntegerType::get(&context, 8)).name;
  const auto kernels = disassembled();
  if (!unavailable.empty())
    GTEST_SKIP() << unavailable;
  const auto found = kernels.find(name);
  ASSERT_NE(found, kernels.end());
  const MachineKernel &kernel = found->second;
  EXPECT_EQ(kernel.count(kernel.all(), {"LDG"}), 16u);
  EXPECT_EQ(count(kernel, "STG", 16), 4);
  EXPECT_EQ(kernel.count(kernel.all(), {"STS"}), 16u);
  EXPECT_EQ(kernel.count(kernel.all(), {"LDS"}), 16u);
  EXPECT_EQ(kernel.count(kernel.all(), {"LDL", "STL"}), 0u);
  RecordProperty("instructions", int(kernel.instructions.size()));
  EXPECT_LE(kernel.instructions.size(), 64u * 6);
}

} // namespace
