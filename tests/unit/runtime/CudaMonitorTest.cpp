// What makers promise of a GPU: the denominator of the progress line's MFU.
#include "runtime/Device/cuda/CudaMonitor.h"
#include <gtest/gtest.h>

namespace ztc {
namespace {

Gpu gpu(const char *name, int major, int minor, int multiprocessors) {
  Gpu made;
  made.name = name;
  made.major = major;
  made.minor = minor;
  made.multiprocessors = multiprocessors;
  return made;
}

double teraflops(const Gpu &gpu, plan::DataType type, double megahertz) {
  return peakFlopsPerSecond(gpu, type, megahertz * 1e6) / 1e12;
}

TEST(CudaMonitor, PeaksOfKnownGpusAreTheirDataSheets) {
  for (const auto &[name, want] :
       {std::pair("NVIDIA H200", 989.4), std::pair("NVIDIA H200 NVL", 835.0), std::pair("NVIDIA H100 80GB HBM3", 989.4),
        std::pair("NVIDIA H100 PCIe", 756.0), std::pair("NVIDIA H20", 148.0), std::pair("NVIDIA GH200 480GB", 989.4)}) {
    EXPECT_EQ(teraflops(gpu(name, 9, 0, 132), plan::BF16, 1980), want) << name;
    EXPECT_EQ(teraflops(gpu(name, 9, 0, 132), plan::F16, 0), want) << name << ": whatever the clock";
  }
  EXPECT_EQ(teraflops(gpu("NVIDIA A100-SXM4-80GB", 8, 0, 108), plan::BF16, 1410), 312);
  EXPECT_EQ(teraflops(gpu("NVIDIA B200", 10, 0, 148), plan::BF16, 1965), 2250);
}

TEST(CudaMonitor, OthersArePeaksOfTheirMultiprocessors) {
  // Data sheets: A30 165, RTX 3090 71, RTX 4090 165, RTX 5090 209.5 (f32 sums, dense).
  EXPECT_NEAR(teraflops(gpu("NVIDIA A30", 8, 0, 56), plan::BF16, 1440), 165, 1);
  EXPECT_NEAR(teraflops(gpu("NVIDIA GeForce RTX 3090", 8, 6, 82), plan::F16, 1695), 71, 1);
  EXPECT_NEAR(teraflops(gpu("NVIDIA GeForce RTX 4090", 8, 9, 128), plan::BF16, 2520), 165, 1);
  EXPECT_NEAR(teraflops(gpu("NVIDIA GeForce RTX 5090", 12, 0, 170), plan::BF16, 2407), 209.5, 1);
  // f32: A100 19.5, H100 SXM 66.9 at 1980 MHz.
  EXPECT_NEAR(teraflops(gpu("NVIDIA A100-SXM4-80GB", 8, 0, 108), plan::F32, 1410), 19.5, 0.1);
  EXPECT_NEAR(teraflops(gpu("NVIDIA H100 80GB HBM3", 9, 0, 132), plan::F32, 1980), 66.9, 0.1);
}

TEST(CudaMonitor, ASliceHasThePeakOfItsOwnMultiprocessors) {
  Gpu slice = gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9, 0, 16);
  slice.uuid = "MIG-1";
  EXPECT_NEAR(teraflops(slice, plan::BF16, 1980), 989.4 * 16 / 132, 12);
}

TEST(CudaMonitor, WhatIsUnknownIsZero) {
  EXPECT_EQ(teraflops(gpu("a GPU of tomorrow", 9, 0, 200), plan::BF16, 0), 0); // no clock is told
  EXPECT_EQ(teraflops(gpu("Tesla V100", 7, 0, 80), plan::BF16, 1530), 0);
}

} // namespace
} // namespace ztc
