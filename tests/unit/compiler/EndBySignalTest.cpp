// Signals that end a program which has folders of a short while and children; each program is a process of its own.
#include "compiler/Support/EndBySignal.h"
#include "compiler/Support/ChildProgram.h"
#include "compiler/Support/OutputFile.h"
#include "compiler/Support/ScratchFolder.h"
#include "runtime/Core/File.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace ztc;

namespace {

/// A temporary folder of the test's own.
class EndBySignal : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> made;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("ztc-signal-test", made));
    folder_ = made.str().str();
    const char *before = std::getenv("TMPDIR");
    before_ = before ? before : "";
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
    (void)llvm::sys::fs::remove_directories(folder_);
  }
  size_t entries() const {
    size_t count = 0;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(folder_, error), end; it != end && !error; it.increment(error))
      ++count;
    return count;
  }
  std::string folder_, before_;
};

/// The status, as of waitpid(), of a process that does this.
int statusOfProcess(llvm::function_ref<void()> work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// Files in folders within one another, and a link to `outside`.
void fillFolder(const ScratchFolder &folder, const std::string &outside) {
  std::string inside = folder.path;
  for (int depth = 0; depth < 4; ++depth) {
    inside += "/deeper";
    (void)llvm::sys::fs::create_directory(inside);
    for (int i = 0; i < 200; ++i)
      (void)writeFile(inside + "/a-file-with-a-name-of-some-length-" + std::to_string(i), "x");
  }
  (void)llvm::sys::fs::create_link(outside, folder / "link");
}

TEST_F(EndBySignal, FoldersGoWithAllInThemAndWhatLinksLeadToStays) {
  const std::string outside = folder_ + "/outside";
  ASSERT_FALSE(llvm::sys::fs::create_directory(outside));
  ASSERT_TRUE(writeFile(outside + "/file", "x"));
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
    const int status = statusOfProcess([&] {
      for (int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE})
        std::signal(number, SIG_DFL);
      cleanUpBySignal();
      const ScratchFolder one("ztc-one"), other("ztc-other");
      fillFolder(one, outside);
      raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(entries(), 1u) << signal;
  }
  EXPECT_TRUE(llvm::sys::fs::exists(outside + "/file"));
}

TEST_F(EndBySignal, AFileThatIsHalfWrittenGoes) {
  const std::string path = folder_ + "/plan.bin";
  ASSERT_TRUE(writeFile(path, "old"));
  const int status = statusOfProcess([&] {
    std::signal(SIGTERM, SIG_DFL);
    cleanUpBySignal();
    const TemporaryOutput temporary(path);
    (void)replaceFile(path, [](const File &file) {
      (void)file.writeAt(0, "new", 3);
      raise(SIGTERM);
      return Status::ok();
    });
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(entries(), 1u);
  uint64_t size = 0;
  EXPECT_FALSE(llvm::sys::fs::file_size(path, size));
  EXPECT_EQ(size, 3u);
}

TEST_F(EndBySignal, AnIgnoredSignalStaysIgnored) {
  const int status = statusOfProcess([&] {
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGTERM, SIG_DFL);
    cleanUpBySignal();
    const ScratchFolder folder("ztc-one");
    raise(SIGHUP);
    if (llvm::sys::fs::exists(folder.path))
      raise(SIGTERM); // and the others are still taken
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(entries(), 0u);
}

TEST_F(EndBySignal, AForkLeavesWhatItsParentHas) {
  const int status = statusOfProcess([] {
    const ScratchFolder folder("ztc-parent");
    const int inner = statusOfProcess([] {
      std::signal(SIGTERM, SIG_IGN);
      cleanUpByTermination();
      const ScratchFolder own("ztc-fork");
      raise(SIGTERM);
    });
    std::error_code error;
    const llvm::sys::fs::directory_iterator only(std::getenv("TMPDIR"), error), end;
    const bool isOnly = !error && only != end && only->path() == folder.path;
    (void)llvm::sys::fs::remove_directories(folder.path);
    _exit(WIFSIGNALED(inner) && WTERMSIG(inner) == SIGTERM && isOnly ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(entries(), 0u);
}

TEST_F(EndBySignal, AChildThatStaysIsKilledBeforeTheFoldersGo) {
  const int status = statusOfProcess([] {
    std::signal(SIGTERM, SIG_DFL);
    cleanUpBySignal();
    const ScratchFolder folder("ztc-one");
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(getpid(), SIGTERM);
    }).detach();
    // Writes a file again and again, whatever becomes of it.
    runChild({.path = "/bin/sh",
              .words = {"-c", "trap '' TERM; mkdir -p " + folder / "x" + "; while :; do : >" + folder / "x/$$; done"},
              .ending = SIGTERM});
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(entries(), 0u);
}

TEST_F(EndBySignal, AProgramsOutputAndItsEnd) {
  const ScratchFolder folder("ztc-one");
  const std::string written = folder / "written", said = folder / "said";
  const ChildEnd end = runChild({.path = "/bin/sh",
                                 .words = {"-c", "echo $WORD; echo said >&2; exit 3"},
                                 .environment = std::vector<std::string>{"WORD=heard"},
                                 .written = written,
                                 .said = said});
  ASSERT_TRUE(end.status && WIFEXITED(*end.status));
  EXPECT_EQ(WEXITSTATUS(*end.status), 3);
  uint64_t size = 0;
  EXPECT_FALSE(llvm::sys::fs::file_size(written, size));
  EXPECT_EQ(size, 6u);
  EXPECT_FALSE(llvm::sys::fs::file_size(said, size));
  EXPECT_EQ(size, 5u);
  const ChildEnd late = runChild({.path = "/bin/sh", .words = {"-c", "exec sleep 60"}, .seconds = 1});
  EXPECT_TRUE(late.isLate && !late.status);
}

} // namespace
