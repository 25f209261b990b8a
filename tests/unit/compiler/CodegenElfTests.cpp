// Images: what a target's code looks like, and that nothing but the kernels is in it.
#include "KernelHarness.h"
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace ztc;
using namespace ztc::test;

static const char *const kNorm =
    R"(func.func @rms_norm(%x: tensor<64x256xf32>, %w: tensor<256xf32>) -> tensor<64x256xf32> {
    %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<64x256xf32>, tensor<256xf32>
    return %y : tensor<64x256xf32>
  })";

/// What a program prints about a file with these bytes.
static std::string inspect(const std::string &program, const std::string &bytes) {
  std::string path = ::testing::TempDir() + "/ztc-image-" + std::to_string(getpid()) + ".so";
  std::ofstream(path, std::ios::binary) << bytes;
  std::string text;
  if (FILE *pipe = popen((program + " " + path + " 2>/dev/null").c_str(), "r")) {
    char buffer[4096];
    while (size_t count = fread(buffer, 1, sizeof(buffer), pipe))
      text.append(buffer, count);
    pclose(pipe);
  }
  std::remove(path.c_str());
  return text;
}

TEST(CodegenElf, EachTargetUsesItsVectors) {
  Group group(kNorm);
  KernelModule module(kernelContext());
  ASSERT_TRUE(succeeded(module.addGroup(group.fusion())));
  auto images = module.emit({"x86-64-v3", "x86-64-v4"});
  ASSERT_TRUE(succeeded(images));
  ASSERT_EQ(images->size(), 2u);
  EXPECT_EQ((*images)[1].target, "x86-64-v4");
  std::string v3 = inspect("/usr/lib/llvm-22/bin/llvm-objdump -d", (*images)[0].bytes);
  std::string v4 = inspect("/usr/lib/llvm-22/bin/llvm-objdump -d", (*images)[1].bytes);
  if (v3.empty())
    GTEST_SKIP() << "llvm-objdump is not where LLVM 22 puts it";
  EXPECT_NE(v3.find("%ymm"), std::string::npos);
  EXPECT_EQ(v3.find("%zmm"), std::string::npos);
  EXPECT_NE(v4.find("%zmm"), std::string::npos);
  EXPECT_EQ(v3.find("vfmadd"), std::string::npos) << "a product and a sum were contracted";
}

TEST(CodegenElf, EqualInputGivesEqualBytes) {
  auto emit = [] {
    Group group(kNorm);
    KernelModule module(kernelContext());
    EXPECT_TRUE(succeeded(module.addGroup(group.fusion())));
    return module.emit({"x86-64-v3"})->front().bytes;
  };
  EXPECT_EQ(emit(), emit());
}

TEST(CodegenElf, NoKernelsGiveAnEmptyLibrary) {
  KernelModule module(kernelContext());
  auto images = module.emit({"x86-64-v3"});
  ASSERT_TRUE(succeeded(images));
  LoadedKernels image(images->front());
}
