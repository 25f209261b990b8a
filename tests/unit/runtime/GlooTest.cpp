// The Gloo module: how it is found, and what a killed process looks like to the others.
#include "runtime/Collective/Communicators.h"
#include "runtime/Collective/GlooLibrary.h"
#include "tests/unit/runtime/Scratch.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

/// Asked by LeakSanitizer: Gloo forgets the list of addresses where it can bind to none of them.
extern "C" const char *__lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDeviceAttr";
}

namespace ztc {
namespace {

TEST(GlooModule, MissingFileIsNamedWithTheRemedy) {
  auto opened = openGlooModule("", "/no/such/folder");
  ASSERT_FALSE(opened.isOk());
  EXPECT_EQ(opened.status().code(), StatusCode::FailedPrecondition);
  EXPECT_NE(opened.status().message().find("/no/such/folder/libztc-gloo.so or /no/such/folder/../lib/libztc-gloo.so"),
            std::string::npos)
      << opened.status().message();
  EXPECT_NE(opened.status().message().find("libgloo-dev"), std::string::npos);
  EXPECT_NE(openGlooModule("/no/such/file.so", "").status().message().find("/no/such/file.so"), std::string::npos);
}

TEST(GlooModule, AnotherLibraryIsRefused) {
  auto opened = openGlooModule("/lib/x86_64-linux-gnu/libm.so.6", "");
  ASSERT_FALSE(opened.isOk());
  EXPECT_NE(opened.status().message().find("not of the same build"), std::string::npos) << opened.status().message();
}

/// Keys are files of a folder: a store between processes that needs no server.
RendezvousStore folderStore(const std::string &folder) {
  return {[folder](const std::string &key, const std::string &value) {
            std::string name = key;
            std::replace(name.begin(), name.end(), '/', '_');
            std::ofstream(folder + "/." + name) << value;
            std::filesystem::rename(folder + "/." + name, folder + "/" + name);
            return Status::ok();
          },
          [folder](const std::string &key, uint64_t timeoutMs) -> StatusOr<std::string> {
            std::string name = key;
            std::replace(name.begin(), name.end(), '/', '_');
            for (uint64_t waited = 0; waited < timeoutMs; ++waited) {
              if (std::ifstream file(folder + "/" + name); file)
                return std::string(std::istreambuf_iterator<char>(file), {});
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            return unavailable("nobody has set " + key);
          }};
}

StatusOr<std::unique_ptr<Communicator>> join(uint32_t rank, uint32_t world, const std::string &folder) {
  GlooOptions options;
  options.rank = rank;
  options.world = world;
  options.address = "127.0.0.1";
  options.timeoutMs = 20000;
  options.store = folderStore(folder);
  return createGlooCommunicator(options);
}

TEST(Gloo, AKilledProcessIsNamedAtOnce) {
  if (auto module = loadGlooModule(""); !module.isOk())
    GTEST_SKIP() << module.status().message();
  test::Scratch scratch;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);
    auto made = join(1, 2, scratch.path());
    if (made.isOk() && (*made)->barrier({}).isOk())
      while (true)
        pause();
    _exit(1);
  }
  auto made = join(0, 2, scratch.path());
  Status status = made.status();
  if (status.isOk()) {
    EXPECT_TRUE((*made)->barrier({}).isOk());
    std::thread killer([&] { kill(child, SIGKILL); });
    float full[128] = {};
    const auto start = std::chrono::steady_clock::now();
    status = (*made)->allGather(full, full, 64, plan::F32, {"all_gather block3"});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    killer.join();
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
  }
  EXPECT_EQ(status.message().find("all_gather block3: rank 1 is lost: "), 0u) << status.message();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(Gloo, ARankThatDoesNotComeIsNamed) {
  if (auto module = loadGlooModule(""); !module.isOk())
    GTEST_SKIP() << module.status().message();
  test::Scratch scratch;
  GlooOptions options;
  options.world = 2;
  options.address = "127.0.0.1";
  options.timeoutMs = 50;
  options.store = folderStore(scratch.path());
  auto made = createGlooCommunicator(options);
  ASSERT_FALSE(made.isOk());
  EXPECT_NE(made.status().message().find("rank 0 waits for rank 1"), std::string::npos) << made.status().message();
  options.address = "192.0.2.1"; // of no interface
  made = createGlooCommunicator(options);
  ASSERT_FALSE(made.isOk());
  EXPECT_NE(made.status().message().find("rank 0 cannot listen at 192.0.2.1"), std::string::npos)
      << made.status().message();
}

} // namespace
} // namespace ztc
