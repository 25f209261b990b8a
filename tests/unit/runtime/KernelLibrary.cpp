#include "runtime/Device/host/KernelLibrary.h"
#include <cmath>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace ztc {
namespace {

/// A shared library that is surely there: the C library's mathematics. Its symbols stand in for kernels.
std::string imageBytes() {
  Dl_info info{};
  if (!dladdr(dlsym(RTLD_DEFAULT, "fabs"), &info) || !info.dli_fname)
    return {};
  std::ifstream file(info.dli_fname, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

double callAsMath(KernelFunction function, double x) {
  return reinterpret_cast<double (*)(double)>(reinterpret_cast<void *>(function))(x);
}

plan::Plan planWith(const std::string &symbol, const std::string &target) {
  plan::Plan plan;
  plan::Image *image = plan.add_images();
  image->set_target(target);
  image->set_data(imageBytes());
  plan::Kernel *kernel = plan.add_kernels();
  kernel->set_name(symbol);
  plan::Kernel::Version *version = kernel->add_versions();
  version->set_target(target);
  version->set_image(0);
  return plan;
}

TEST(KernelLibrary, LoadsAnImageFromMemory) {
  plan::Plan plan = planWith("fabs", "x86-64-v3");
  KernelLibrary library;
  Status status = library.load(plan, {});
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(library.target(), "x86-64-v3");
  auto kernel = library.find(0);
  ASSERT_TRUE(kernel.isOk());
  EXPECT_EQ(callAsMath(*kernel, -2.5), 2.5);
  EXPECT_EQ(library.find(1).status().code(), StatusCode::DataLoss);
}

TEST(KernelLibrary, ASecondPlanReplacesTheFirst) {
  KernelLibrary library;
  ASSERT_TRUE(library.load(planWith("fabs", "x86-64-v3"), {}).isOk());
  ASSERT_TRUE(library.load(planWith("sqrt", "x86-64-v3"), {}).isOk());
  EXPECT_EQ(callAsMath(*library.find(0), 16), 4);
}

TEST(KernelLibrary, AnotherProcessorIsNamed) {
  KernelLibrary library;
  Status status = library.load(planWith("fabs", "sm_90a"), {});
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_NE(status.message().find("this processor cannot run the plan's kernels"), std::string::npos)
      << status.message();
}

TEST(KernelLibrary, MissingSymbolAndDamagedImage) {
  KernelLibrary library;
  EXPECT_EQ(library.load(planWith("no_such_kernel", "x86-64-v3"), {}).code(), StatusCode::DataLoss);
  plan::Plan plan = planWith("fabs", "x86-64-v3");
  plan.mutable_images(0)->set_data("not an ELF file");
  EXPECT_EQ(library.load(plan, {}).code(), StatusCode::FailedPrecondition);
}

} // namespace
} // namespace ztc
