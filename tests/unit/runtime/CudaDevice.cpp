// The CUDA device on the stand-ins of tests/standin: no GPU is needed, and none is used.
#include "runtime/Device/cuda/LibraryFolders.h"
#include "tests/unit/runtime/CudaRunner.h"
#include "tests/unit/runtime/Scratch.h"
#include <filesystem>
#include <gmock/gmock.h>
#include <numeric>

namespace ztc::test {
namespace {

using ::testing::HasSubstr;

TEST(CudaDevice, KernelsOverwriteAndAdd) {
  const std::vector<float> x = randomFloats(5 * 300, 1);
  CudaRunner runner;
  const uint32_t from = runner.slot(x), to = runner.slot(std::vector<float>(x.size(), 7));
  const uint32_t overwrites = runner.addKernel("twice_plus_one", 96), adds = runner.addKernel("twice_plus_one_add", 64);
  plan::Launch *launch = runner.launch("twice", {from, to}, overwrites, 5, 300);
  launch->set_kernel_add(adds);
  launch->set_accumulate(plan::ADD_UNLESS_FIRST);
  const uint32_t sums = runner.scratch(5 * 4, false);
  runner.launch("sums", {from, sums}, runner.addKernel("row_sum", 128), 5, 300);
  const Status prepared = runner.prepare(1);
  ASSERT_TRUE(prepared.isOk()) << prepared.message();
  EXPECT_THAT(runner.device().description(), HasSubstr("STAND-IN FOR A GPU"));
  ASSERT_TRUE(runner.run(0).isOk());
  ASSERT_TRUE(runner.run(1).isOk());
  const std::vector<float> got = runner.read(to, x.size()), rows = runner.read(sums, 5);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(got[i], (2 * x[i] + 1) + (2 * x[i] + 1)) << i;
  for (size_t row = 0; row < 5; ++row)
    EXPECT_NEAR(rows[row], std::accumulate(x.begin() + long(row) * 300, x.begin() + long(row + 1) * 300, 0.0), 1e-4);
}

TEST(CudaDevice, EventsOrderTheStreams) {
  CudaRunner runner;
  const size_t count = 20000;
  const uint32_t a = runner.slot(std::vector<float>(count, 1)), b = runner.scratch(count * 4, false),
                 c = runner.scratch(count * 4, false);
  const uint32_t kernel = runner.addKernel("twice_plus_one", 32);
  runner.launch("b = 2a + 1", {a, b}, kernel, 20, 1000);
  runner.order(0, 1, 0);
  plan::Step *copy = runner.step("c = b", {b, c});
  copy->set_stream(1);
  copy->mutable_copy();
  runner.order(1, 0, 1);
  runner.launch("a = 2c + 1", {c, a}, kernel, 20, 1000);
  ASSERT_TRUE(runner.prepare(1).isOk());
  float want = 1;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(runner.run().isOk());
    want = 2 * (2 * want + 1) + 1;
  }
  EXPECT_EQ(runner.read(a, count), std::vector<float>(count, want));
}

TEST(CudaDevice, UploadsComeAfterWhatWasEnqueuedBefore) {
  CudaRunner runner;
  const size_t count = 2200000; // more than both pieces of the page-locked staging
  const uint32_t from = runner.scratch(count * 4, false), to = runner.scratch(count * 4, false);
  runner.step("copy", {from, to})->mutable_copy();
  ASSERT_TRUE(runner.prepare(1).isOk());
  std::vector<float> values(count);
  for (float round : {1.0f, 2.0f}) {
    for (size_t i = 0; i < count; ++i)
      values[i] = round + float(i);
    ASSERT_TRUE(runner.executor().writeSlot(from, 0, values.data(), count * 4).isOk());
    ASSERT_TRUE(runner.run().isOk());
    const std::vector<float> sent = values;
    std::fill(values.begin(), values.end(), -1.0f); // the caller's memory is free again
    ASSERT_TRUE(runner.executor().writeSlot(from, 0, values.data(), count * 4).isOk());
    EXPECT_EQ(runner.read(to, count), sent);
  }
}

TEST(CudaDevice, MatrixProductsAtAddressesOfAnyAlignment) {
  const std::vector<float> a = randomFloats(64, 1), b = randomFloats(64, 2);
  for (bool workspace : {false, true}) {
    CudaRunner runner;
    const uint32_t c = runner.scratch(64 * 4, false), scratch = runner.scratch(4096, false);
    plan::Step *step = runner.step("product", {runner.slot(a), runner.slot(b), c});
    step->mutable_operands(0)->set_offset(4);
    step->mutable_operands(1)->set_offset(8);
    if (workspace)
      step->add_operands()->set_slot(scratch);
    plan::Gemm &gemm = *step->mutable_gemm();
    gemm.set_m(3), gemm.set_n(5), gemm.set_k(4);
    gemm.set_lda(4), gemm.set_ldb(5), gemm.set_ldc(6);
    gemm.set_alpha(0.5);
    gemm.set_type_a(plan::F32);
    gemm.set_type_c(plan::F32);
    runner.runOnce(1);
    const std::vector<float> got = runner.read(c, 18);
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 5; ++j) {
        double want = 0;
        for (size_t l = 0; l < 4; ++l)
          want += 0.5 * double(a[1 + i * 4 + l]) * b[2 + l * 5 + j];
        EXPECT_NEAR(got[i * 6 + j], want, 1e-6);
      }
  }
}

TEST(CudaDevice, WhatThePlanLacksIsNamed) {
  const auto prepared = [](auto &&change) {
    CudaRunner runner;
    const uint32_t slot = runner.scratch(256, false);
    change(runner, slot);
    return runner.prepare(1).message();
  };
  EXPECT_EQ(prepared([](CudaRunner &runner, uint32_t) { runner.addKernel("row_sum", 32, "sm_100a"); }),
            "the plan's kernels are for sm_100a; STAND-IN (NO GPU) runs simt: compile with --target=simt");
  EXPECT_EQ(prepared([](CudaRunner &runner, uint32_t) { runner.addKernel("not_there", 32); }),
            "the kernel image for simt lacks not_there");
  EXPECT_EQ(prepared([](CudaRunner &runner, uint32_t) { runner.addKernel("row_sum", 0); }),
            "kernel row_sum has no geometry for simt");
  EXPECT_EQ(prepared([](CudaRunner &runner, uint32_t) { runner.addKernel("row_sum", 2048); }),
            "kernel row_sum wants blocks of 2048 threads, STAND-IN (NO GPU) can run 1024 of it");
  EXPECT_EQ(prepared([](CudaRunner &runner, uint32_t slot) {
              plan::Attention &attention =
                  *runner.step("attend", {slot, slot, slot, slot, slot, slot})->mutable_attention();
              attention.set_batch(1);
              attention.set_seq(2);
              attention.set_heads(1);
              attention.set_kv_heads(1);
              attention.set_head_dim(4);
            }),
            "program microstep, step 'attend': the plan has no kernel for this step on a GPU: compile with "
            "--target=simt");
}

/// The header of machine code that CUDA 13's ptxas wrote.
std::string codeOfCuda13() {
  std::string code(64, 0);
  code.replace(0, 8,
               std::string("\x7f"
                           "ELF\x02\x01\x01\x41",
                           8));
  return code;
}

/// A process loads the driver once: each version has a process of its own.
TEST(CudaDeviceDeathTest, AnOlderDriverCompilesThePtxOfLaterMachineCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](bool hasPtx, const char *version) {
    Variable driver("ZTC_STAND_IN_DRIVER", version);
    CudaRunner runner;
    plan::Image &image = *runner.plan().mutable_images(0);
    if (hasPtx)
      image.set_ptx(image.data()); // what the stand-in can run
    image.set_data(codeOfCuda13());
    image.set_cuda_version(13000);
    const uint32_t from = runner.slot(randomFloats(300, 1)), to = runner.scratch(1200, false);
    runner.launch("twice", {from, to}, runner.addKernel("twice_plus_one", 32), 1, 300);
    Status status = runner.prepare(1);
    if (status.isOk())
      status = runner.run();
    std::fprintf(stderr, "%s\n", (status.isOk() ? runner.device().description() : status.message()).c_str());
    _exit(3);
  };
  const testing::ExitedWithCode exits(3);
  EXPECT_EXIT(run(true, "12080"), exits, "kernels for simt \\(compiled by the driver: the plan's are of CUDA 13.0\\)");
  EXPECT_EXIT(run(false, "12080"), exits,
              "the plan's kernels for simt were assembled by CUDA 13.0, the driver of STAND-IN \\(NO GPU\\) supports "
              "CUDA 12.8: install a later driver, or compile with a ptxas of CUDA 12");
  EXPECT_EXIT(run(true, "13000"), exits, "the plan's image for simt on STAND-IN"); // it is not code that anything runs
}

TEST(CudaDevice, TheArenaIsVirtualMemoryWhereTheDriverHasIt) {
  for (const char *has : {"1", "0"}) {
    Variable variable("ZTC_STAND_IN_VIRTUAL_MEMORY", has);
    auto device = standInDevice()(1);
    ASSERT_TRUE(device.isOk()) << device.status().message();
    const uint64_t before = *(*device)->memory().freeBytes();
    {
      const auto arena = (*device)->memory().allocateArena(1000);
      ASSERT_TRUE(arena.isOk()) << arena.status().message();
      EXPECT_EQ((*arena)->bytes(), 1000u);
      EXPECT_EQ(before - *(*device)->memory().freeBytes(), (*device)->memory().roundedArenaBytes(1000));
      EXPECT_EQ((*device)->memory().roundedArenaBytes(1000), *has == '1' ? 1024u : 1000u);
    }
    EXPECT_EQ(*(*device)->memory().freeBytes(), before);
  }
}

TEST(CudaDevice, SlicesOfAGpuAreGpusOfTheirOwn) {
  Variable slices("ZTC_STAND_IN_MIG", "1"), count("ZTC_STAND_IN_GPUS", "2");
  CudaDriver driver;
  ASSERT_TRUE(driver.open(standIns()).isOk());
  const auto gpus = listGpus(driver);
  ASSERT_TRUE(gpus.isOk()) << gpus.status().message();
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[0].busId, (*gpus)[1].busId);
  EXPECT_EQ((*gpus)[1].uuid, "MIG-00000000-0000-0000-0000-000000000001");
  EXPECT_TRUE((*gpus)[1].isSlice());
  CudaDeviceOptions options{.libraries = standIns(), .localRank = 1};
  const auto device = createCudaDevice(options);
  ASSERT_TRUE(device.isOk()) << device.status().message();
  EXPECT_EQ((*device)->memory().memoryName(), "GPU 0000:00:00.0, MIG-00000000-0000-0000-0000-000000000001");
}

TEST(CudaDevice, Tf32RoundsFactorsOfF32Products) {
  const std::vector<float> a = {1.0f + 0x1p-11f, 1.0f + 0x1p-10f}, b = {1, 1};
  for (const bool tf32 : {false, true}) {
    CudaRunner runner;
    runner.plan().set_tf32(tf32);
    const uint32_t c = runner.scratch(4, false);
    plan::Gemm &gemm = *runner.step("product", {runner.slot(a), runner.slot(b), c})->mutable_gemm();
    gemm.set_m(1), gemm.set_n(1), gemm.set_k(2);
    gemm.set_lda(2), gemm.set_ldb(1), gemm.set_ldc(1);
    gemm.set_alpha(1);
    gemm.set_type_a(plan::F32);
    gemm.set_type_c(plan::F32);
    runner.runOnce(1);
    // A tie goes to the even neighbour, 1; ten bits after the leading one are kept.
    EXPECT_EQ(runner.read(c, 1)[0], tf32 ? 2.0f + 0x1p-10f : 2.0f + 0x1p-10f + 0x1p-11f);
  }
}

TEST(CudaDevice, AnArenaThatDoesNotFit) {
  auto device = standInDevice()(1);
  ASSERT_TRUE(device.isOk()) << device.status().message();
  const auto arena = (*device)->memory().allocateArena(uint64_t(1) << 40);
  EXPECT_EQ(arena.status().code(), StatusCode::ResourceExhausted);
  EXPECT_THAT(arena.status().message(), HasSubstr("the arena of 1099511627776 bytes on STAND-IN (NO GPU)"));
  EXPECT_EQ(*(*device)->memory().freeBytes(), uint64_t(8) << 30);
}

/// A kernel that fails ends its process's context: these run in processes of their own.
TEST(CudaDeviceDeathTest, AFailedKernelIsReportedAndNamedOnRequest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (bool synchronous : {false, true})
    EXPECT_EXIT(
        {
          CudaRunner runner({.libraries = {}, .synchronous = synchronous});
          const uint32_t slot = runner.scratch(256, false);
          runner.launch("bad step", {slot}, runner.addKernel("reads_outside", 32), 1, 0);
          Status status = runner.prepare(1);
          if (status.isOk())
            status = runner.run();
          float value = 0;
          if (status.isOk())
            status = runner.executor().readSlot(slot, 0, &value, sizeof value);
          std::fprintf(stderr, "%s\n", status.message().c_str());
          _exit(status.code() == StatusCode::Unavailable ? 3 : 4);
        },
        ::testing::ExitedWithCode(3),
        synchronous ? "step 'bad step': cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED"
                    : "CUDA_ERROR_LAUNCH_FAILED.*ZTC_CUDA_SYNC=1 names it");
}

TEST(CudaLibraries, WhatIsMissingIsToldWithWhatToDo) {
  const auto opened = [](const CudaLibraryPaths &paths) {
    const Status status = CudaDriver().open(paths);
    EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
    return status.message();
  };
  CudaLibraryPaths paths;
  paths.driver = "/nowhere/libcuda.so.1";
  EXPECT_THAT(opened(paths), testing::AllOf(HasSubstr("the NVIDIA driver cannot be loaded (/nowhere/libcuda.so.1: "),
                                            HasSubstr("this host has no GPU"), HasSubstr("ZTC_LIBCUDA")));
  // A stand-in is not a driver, unless the test says so.
  paths.driver = ZTC_STAND_INS_FOLDER "/libztc-standin-cuda.so";
  EXPECT_EQ(opened(paths), paths.driver + " is a stand-in for tests, which only ZTC_STAND_INS may name");
  {
    Variable none("ZTC_STAND_IN_DRIVER", "0");
    CudaLibraryPaths hidden = standIns();
    EXPECT_EQ(opened(hidden), "the NVIDIA driver is here and sees no GPU (CUDA_VISIBLE_DEVICES is empty or not set)");
    hidden.visibleDevices = "7";
    EXPECT_EQ(opened(hidden), "the NVIDIA driver is here and sees no GPU (CUDA_VISIBLE_DEVICES is '7')");
  }
  Variable old("ZTC_STAND_IN_DRIVER", "11080");
  EXPECT_EQ(opened(standIns()), "the NVIDIA driver is too old: it supports CUDA 11.8, 12.0 is needed: install driver "
                                "525 or a later one");
}

TEST(CudaLibraries, PythonEnvironmentsAndToolkitsAreLookedThrough) {
  const Scratch scratch;
  const std::string root = scratch.path() + "/";
  const std::string packages = root + "venv/lib/python3.12/site-packages/nvidia/";
  for (const char *folder : {"cu13/lib", "nccl/lib"})
    std::filesystem::create_directories(packages + folder);
  std::filesystem::create_directories(root + "other/lib/python3.9/site-packages/nvidia/cudnn/lib");
  std::filesystem::create_directories(root + "other/bin");
  std::filesystem::create_symlink("/bin/true", root + "other/bin/python3");
  std::filesystem::create_directories(root + "toolkit/lib64");
  const std::map<std::string, std::string> environment = {
      {"VIRTUAL_ENV", root + "venv"}, {"PATH", "/nowhere:" + root + "other/bin"}, {"CUDA_HOME", root + "toolkit"}};
  const CudaLibraryPaths found = cudaLibraryPaths([&](const char *name) {
    const auto value = environment.find(name);
    return value == environment.end() ? std::string() : value->second;
  });
  std::vector<std::string> ours;
  for (const std::string &folder : found.folders)
    if (folder.rfind(root, 0) == 0)
      ours.push_back(folder.substr(root.size()));
  EXPECT_THAT(ours, testing::ElementsAre("venv/lib/python3.12/site-packages/nvidia/nccl/lib",
                                         "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
                                         "other/bin/../lib/python3.9/site-packages/nvidia/cudnn/lib", "toolkit/lib64"));
  // What only such a folder has is opened there: by the message, as no stand-in is taken unasked.
  const CudaLibraryName name = {"a library", "ZTC_NONE", "none", "no advice", {"libztc-in-a-package.so.1"}};
  EXPECT_THAT(openCudaLibrary(name, "", found).status().message(), HasSubstr("libztc-in-a-package.so.1: cannot open"));
  const std::string file = packages + "nccl/lib/libztc-in-a-package.so.1";
  std::filesystem::create_symlink(ZTC_STAND_INS_FOLDER "/libztc-standin-nvml.so", file);
  EXPECT_EQ(openCudaLibrary(name, "", found).status().message(),
            file + " is a stand-in for tests, which only ZTC_STAND_INS may name");
}

TEST(CudaLibraries, WhatIsFoundIsDescribed) {
  EXPECT_THAT(
      describeCudaLibraries(standIns()),
      testing::AllOf(HasSubstr("the NVIDIA driver for CUDA 13.0, " ZTC_STAND_INS_FOLDER),
                     HasSubstr("STAND-IN (NO GPU), sm_90, 8.00 GiB, 1 multiprocessors, bus 0000:00:00.0, GPU-0000"),
                     HasSubstr("cuBLASLt 13.1.0, "), HasSubstr("NCCL 2.28.9, "), HasSubstr("NVML is there, ")));
}

TEST(CudaLibraries, CublasLtOfALaterCudaThanTheDriver) {
  CudaDriver driver;
  ASSERT_TRUE(driver.open(standIns()).isOk());
  Variable later("ZTC_STAND_IN_CUBLASLT", "140000");
  EXPECT_EQ(CublasLt().open(standIns(), driver).message(),
            "cuBLASLt 14.0.0 needs a driver for CUDA 14.0, this one supports CUDA 13.0: install a later driver, or "
            "cuBLAS of CUDA 13");
}

TEST(CudaLibraries, ArchitecturesThatAGpuRuns) {
  Gpu gpu;
  gpu.major = 9;
  EXPECT_EQ(gpu.architecture(), "sm_90");
  EXPECT_TRUE(gpu.runs("sm_90") && gpu.runs("sm_90a"));
  for (const char *other : {"sm_80", "sm_100a", "sm_100", "x86-64-v3", "simt", "sm_", "sm_a", "sm_9", "sm_91"})
    EXPECT_FALSE(gpu.runs(other)) << other;
  gpu.major = 8, gpu.minor = 9;
  EXPECT_TRUE(gpu.runs("sm_80") && gpu.runs("sm_86") && gpu.runs("sm_89"));
  EXPECT_FALSE(gpu.runs("sm_80a"));
  gpu.major = 12, gpu.minor = 1;
  EXPECT_TRUE(gpu.runs("sm_121a"));
  EXPECT_FALSE(gpu.runs("sm_120a") || gpu.runs("sm_90a"));
}

TEST(CudaRanks, CollectivesAsThePlanOrdersThem) {
  constexpr uint32_t kWorld = 3;
  constexpr uint64_t kShard = 64 * 700; // several pieces
  const auto value = [](uint32_t rank, uint64_t i) { return float(rank + 1) + float(i % 1000) * 0.25f; };
  constexpr uint32_t kSums = 2, kNorm = 3;
  onRanks(
      kWorld,
      [&](CudaRunner &runner, uint32_t rank) {
        runner.plan().add_buckets()->set_elements(kWorld * kShard);
        std::vector<float> mine(kWorld * kShard);
        for (uint64_t i = 0; i < mine.size(); ++i)
          mine[i] = value(rank, i);
        const uint32_t full = runner.slot(mine), scratch = runner.scratch(1 << 16, false);
        const uint32_t sums = runner.scratch(mine.size() * 4, false);
        const uint32_t norm = runner.slot(std::vector<float>{float(rank + 1)});
        ASSERT_EQ(std::pair(sums, norm), std::pair(kSums, kNorm));
        collectiveStep(runner, "reduce_scatter all", {full, scratch}, plan::Collective::REDUCE_SCATTER);
        plan::Step *gather = collectiveStep(runner, "all_gather all", {full, sums}, plan::Collective::ALL_GATHER);
        gather->mutable_operands(0)->set_offset(rank * kShard * 4);
        gather->mutable_operands(0)->set_bytes(kShard * 4);
        collectiveStep(runner, "all_reduce norm", {norm, scratch}, plan::Collective::ALL_REDUCE);
      },
      [&](CudaRunner &runner, uint32_t rank, Communicator &communicator) {
        ASSERT_TRUE(runner.run().isOk());
        const std::vector<float> got = runner.read(kSums, kWorld * kShard);
        for (uint64_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i], value(0, i) + value(1, i) + value(2, i)) << rank << " " << i;
        EXPECT_EQ(runner.read(kNorm, 1)[0], 6.0f);
        EXPECT_EQ(communicator.traffic().sentBytes(), 2 * 2 * kShard * 4);
      });
}

TEST(CudaRanks, NcclUsesTheArenaInPlace) {
  const uint64_t before = calls("arenas that NCCL uses in place");
  onRanks(
      2, [](CudaRunner &runner, uint32_t) { runner.scratch(512, false); },
      [](CudaRunner &runner, uint32_t, Communicator &communicator) {
        EXPECT_TRUE(communicator.registerMemory(runner.arena().base(), runner.arena().bytes()).isOk());
        communicator.forgetMemory();
      });
  EXPECT_EQ(calls("arenas that NCCL uses in place") - before, 2u);
}

TEST(CudaRanks, GathersInTheArenaTakeNoMultiprocessors) {
  const uint64_t windows = calls("arenas that are windows"), copies = calls("gathers without multiprocessors"),
                 rings = calls("communicators with rings");
  onRanks(
      2,
      [](CudaRunner &runner, uint32_t) {
        runner.plan().add_buckets()->set_elements(128);
        const uint32_t shard = runner.slot(std::vector<float>(64, 3)), full = runner.scratch(512, false);
        collectiveStep(runner, "all_gather a", {shard, full}, plan::Collective::ALL_GATHER);
        collectiveStep(runner, "reduce_scatter b", {full, runner.scratch(512, false)},
                       plan::Collective::REDUCE_SCATTER);
      },
      [](CudaRunner &runner, uint32_t rank, Communicator &communicator) {
        EXPECT_THAT(communicator.description(), testing::Not(HasSubstr("gathers in windows")));
        ASSERT_TRUE(runner.run().isOk()); // without a window: by kernels
        ASSERT_TRUE(communicator.registerMemory(runner.arena().base(), runner.arena().bytes()).isOk());
        EXPECT_THAT(communicator.description(), HasSubstr("NCCL 2.28.9, Ring Simple, gathers in windows"));
        ASSERT_TRUE(runner.run().isOk()); // sums stay out of windows: the stand-in would refuse them
        EXPECT_EQ(runner.read(1, 128)[rank * 64], 6.0f);
        communicator.forgetMemory();
      });
  EXPECT_EQ(calls("arenas that are windows") - windows, 2u);
  EXPECT_EQ(calls("gathers without multiprocessors") - copies, 2u);
  EXPECT_EQ(calls("communicators with rings") - rings, 2u) << "of a rank's two, the one for sums has buffers";
}

TEST(CudaRanks, ProductsKnowWhatCollectivesLeave) {
  Variable count("ZTC_STAND_IN_MULTIPROCESSORS", "132");
  const uint64_t before = calls("products for 116 multiprocessors");
  const auto multiply = [](CudaRunner &runner) {
    const uint32_t a = runner.slot(std::vector<float>(64 * 64, 1)), b = runner.slot(std::vector<float>(64 * 64, 2));
    plan::Gemm &gemm = *runner.step("product", {a, b, runner.scratch(64 * 64 * 4, false)})->mutable_gemm();
    gemm.set_m(64), gemm.set_n(64), gemm.set_k(64);
    gemm.set_lda(64), gemm.set_ldb(64), gemm.set_ldc(64);
    gemm.set_batch(1);
    gemm.set_alpha(1);
    gemm.set_type_a(plan::F32), gemm.set_type_c(plan::F32);
  };
  onRanks(
      2, [&](CudaRunner &runner, uint32_t) { multiply(runner); },
      [](CudaRunner &runner, uint32_t, Communicator &) {
        ASSERT_TRUE(runner.run().isOk());
        EXPECT_EQ(runner.read(2, 1)[0], 128.0f);
      });
  EXPECT_EQ(calls("products for 116 multiprocessors") - before, 2u);
  CudaRunner alone;
  multiply(alone);
  ASSERT_TRUE(alone.prepare(0).isOk());
  ASSERT_TRUE(alone.run().isOk());
  EXPECT_EQ(calls("products for 116 multiprocessors") - before, 2u) << "on one GPU all are there";
}

TEST(CudaRanks, RanksInDifferentCollectivesFail) {
  onRanks(
      2,
      [](CudaRunner &runner, uint32_t rank) {
        runner.plan().add_buckets()->set_elements(128);
        const uint32_t full = runner.scratch(512, false), other = runner.scratch(1 << 12, false);
        if (rank == 0)
          collectiveStep(runner, "reduce_scatter a", {full, other}, plan::Collective::REDUCE_SCATTER);
        else
          collectiveStep(runner, "all_reduce b", {full, other}, plan::Collective::ALL_REDUCE);
      },
      [](CudaRunner &runner, uint32_t rank, Communicator &communicator) {
        Status status = runner.run();
        if (status.isOk())
          status = runner.device().synchronize();
        EXPECT_EQ(status.code(), StatusCode::Unavailable);
        EXPECT_THAT(status.message(),
                    HasSubstr(rank == 0 ? "reduce_scatter a: invalid usage" : "all_reduce b: invalid usage"));
      });
}

TEST(CudaRanks, AbortEndsACollectiveThatOthersDoNotJoin) {
  onRanks(
      2,
      [](CudaRunner &runner, uint32_t) {
        runner.plan().add_buckets()->set_elements(128);
        collectiveStep(runner, "all_gather a", {runner.scratch(512, false), runner.scratch(512, false)},
                       plan::Collective::ALL_GATHER);
      },
      [](CudaRunner &runner, uint32_t rank, Communicator &communicator) {
        if (rank != 0)
          return;
        std::thread watchdog([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          communicator.abort("rank 1 is lost");
        });
        Status status = runner.run();
        if (status.isOk())
          status = runner.device().synchronize();
        watchdog.join();
        EXPECT_THAT(status.message(), HasSubstr("all_gather a: rank 1 is lost"));
      });
}

} // namespace
} // namespace ztc::test
