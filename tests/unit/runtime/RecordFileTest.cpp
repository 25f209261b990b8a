// Records of a file that takes nothing for a while: kept, written in order, never a part of one at the file's end.
#include "runtime/Train/RecordFile.h"
#include "Scratch.h"
#include "runtime/Train/EventFile.h"
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace ztc;
using ztc::test::Scratch;

namespace {

std::string contentOf(const std::string &path) {
  StatusOr<std::string> text = readWholeFile(path);
  return text.isOk() ? *text : "(no file)";
}

size_t countOf(const std::string &text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

/// Captures stderr from here on; in a pipe, because the limits below are for files.
class Heard {
public:
  Heard() : before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~Heard() {
    dup2(before_, STDERR_FILENO);
    for (const int descriptor : {before_, ends_[0], ends_[1]})
      ::close(descriptor);
  }
  std::string text() const {
    std::string said(size_t(1) << 16, 0);
    const ssize_t count = ::read(ends_[0], said.data(), said.size());
    return said.substr(0, count > 0 ? size_t(count) : 0);
  }

private:
  int before_, ends_[2];
};

/// A disk on which files have room for so many bytes, until the end of the block or more().
class SmallDisk {
public:
  explicit SmallDisk(uint64_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    set(bytes);
  }
  ~SmallDisk() {
    more();
    std::signal(SIGXFSZ, handler_);
  }
  static void set(uint64_t bytes) {
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  void more() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }

private:
  rlimit before_{};
  void (*handler_)(int);
};

void openAt(RecordFile &file, const std::string &path, int flags = 0) {
  file.open(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666), "the log " + path, "lines");
  ASSERT_TRUE(file.isOpen());
}

TEST(TrainRecordFile, APartIsTakenOutUntilTheWholeFits) {
  for (int flags : {0, O_APPEND}) {
    const Scratch scratch;
    const std::string path = scratch.path("log");
    const Heard heard;
    {
      RecordFile file;
      openAt(file, path, flags);
      file.append("first\n");
      SmallDisk disk(9); // within the second one
      file.append("second\n");
      EXPECT_EQ(contentOf(path), "first\n");
      file.append("third\n");
      EXPECT_EQ(contentOf(path), "first\n");
      SmallDisk::set(16); // for the second one, and a part of the third
      file.append("fourth\n");
      EXPECT_EQ(contentOf(path), "first\nsecond\n");
      disk.more();
      file.append("fifth\n");
      EXPECT_EQ(contentOf(path), "first\nsecond\nthird\nfourth\nfifth\n");
      file.append("sixth\n");
    }
    EXPECT_EQ(contentOf(path), "first\nsecond\nthird\nfourth\nfifth\nsixth\n");
    const std::string said = heard.text();
    EXPECT_EQ(countOf(said, "\n"), 2u) << said;
    EXPECT_EQ(countOf(said, "log waits: File too large; its lines are kept"), 1u) << said;
    EXPECT_EQ(countOf(said, "log is whole again: the lines that waited are written"), 1u) << said;
  }
}

TEST(TrainRecordFile, TheEndWritesWhatWaits) {
  const Scratch scratch;
  const std::string path = scratch.path("log");
  const Heard heard;
  {
    RecordFile file;
    openAt(file, path);
    SmallDisk disk(3);
    file.append("first\n");
    EXPECT_EQ(contentOf(path), "");
    disk.more();
    file.close();
    EXPECT_FALSE(file.isOpen());
    file.append("dropped\n");
  }
  EXPECT_EQ(contentOf(path), "first\n");
  EXPECT_EQ(countOf(heard.text(), "is whole again"), 1u);
}

TEST(TrainRecordFile, TheEndCountsWhatIsLost) {
  const Scratch scratch;
  const std::string path = scratch.path("log");
  const Heard heard;
  {
    const SmallDisk disk(8);
    RecordFile file;
    openAt(file, path);
    for (const char *line : {"first\n", "second\n", "third\n"})
      file.append(line);
  }
  EXPECT_EQ(contentOf(path), "first\n");
  const std::string said = heard.text();
  EXPECT_EQ(countOf(said, "ends here: File too large; the last 2 of its lines are lost"), 1u) << said;
}

TEST(TrainRecordFile, MoreThanIsKeptEndsIt) {
  const Heard heard;
  RecordFile file;
  openAt(file, "/dev/full");
  for (size_t kept = 0; kept <= RecordFile::kMostKeptBytes; kept += size_t(1) << 20) {
    EXPECT_TRUE(file.isOpen()) << kept;
    file.append(std::string(size_t(1) << 20, 'x'));
  }
  EXPECT_FALSE(file.isOpen());
  const std::string said = heard.text();
  EXPECT_EQ(countOf(said, "\n"), 2u) << said;
  EXPECT_EQ(countOf(said, "/dev/full ends here: No space left on device; the last 9 of its lines are lost"), 1u)
      << said;
}

TEST(TrainRecordFile, WhatHasNoEndToCutGoesOnWhereItStood) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const auto capacity = size_t(fcntl(ends[1], F_SETPIPE_SZ, 4096));
  const std::string first(capacity + 100, 'a'), second(50, 'b');
  const Heard heard;
  RecordFile file;
  file.open(ends[1], "the pipe", "lines");
  file.append(first); // takes a part
  std::string taken(2 * capacity, 0);
  ssize_t count = ::read(ends[0], taken.data(), taken.size());
  ASSERT_GT(count, 0);
  taken.resize(size_t(count));
  file.append(second);
  file.close();
  std::string rest(2 * capacity, 0);
  count = ::read(ends[0], rest.data(), rest.size());
  ASSERT_GT(count, 0);
  EXPECT_EQ(taken + rest.substr(0, size_t(count)), first + second);
  EXPECT_EQ(countOf(heard.text(), "ends here"), 0u);
  ::close(ends[0]);
}

TEST(TrainRecordFile, AFileThatSomebodyRemovesIsNamedOnce) {
  const Scratch scratch;
  const Heard heard;
  RecordFile file;
  openAt(file, scratch.path("log"));
  file.append("first\n");
  EXPECT_EQ(heard.text(), "");
  EXPECT_OK(renamePath(scratch.path("log"), scratch.path("moved")));
  file.append("second\n");
  EXPECT_EQ(heard.text(), "");
  EXPECT_OK(removeAll(scratch.path("moved")));
  file.append("third\n");
  file.append("fourth\n");
  const std::string said = heard.text();
  EXPECT_EQ(countOf(said, "log was removed while the run writes it: its lines go nowhere\n"), 1u) << said;
  EXPECT_EQ(countOf(said, "\n"), 1u) << said;
}

TEST(TrainRecordFile, EventsThatARunStillWritesAreNotReplaced) {
  const Scratch scratch;
  const std::string folder = scratch.path("events");
  {
    EventFile first;
    ASSERT_OK(first.open(folder, "first", false));
    for (const char *run : {"first", "second"}) {
      EventFile second;
      const std::string refused = test::messageOf(second.open(folder, run, /*overwrite=*/true));
      EXPECT_NE(refused.find("another run is writing into"), std::string::npos) << refused;
    }
  }
  EventFile second;
  EXPECT_OK(second.open(folder, "second", /*overwrite=*/true));
  EXPECT_EQ((*listFolder(folder)).size(), 1u);
}

TEST(TrainRecordFile, EventsOfAFullDiskAreTheSameFile) {
  const Scratch scratch;
  const auto write = [&](const std::string &folder, uint64_t room) {
    EventFile file;
    EXPECT_OK(file.open(folder, "run", false));
    const auto bytesOf = [&] {
      return contentOf(folder + "/" + (*listFolder(folder))[0]); // one file
    };
    const size_t head = bytesOf().size();
    SmallDisk disk(room);
    for (uint64_t step = 0; step < 4; ++step)
      file.write(step, {{"train/loss", double(step)}});
    // A whole number of records, which are of one length.
    const size_t there = bytesOf().size();
    disk.more();
    file.write(4, {{"train/loss", 4.0}});
    const size_t all = bytesOf().size(), one = (all - head) / 5;
    EXPECT_EQ((there - head) % one, 0u) << there;
    return std::pair(there, all);
  };
  const Heard heard;
  const auto [whole, all] = write(scratch.path("plenty"), uint64_t(1) << 30);
  for (uint64_t less = 1; less < 80; less += 13) {
    const auto [there, after] = write(scratch.path("less" + std::to_string(less)), whole - less);
    EXPECT_LT(there, whole);
    EXPECT_EQ(after, all);
  }
  EXPECT_EQ(countOf(heard.text(), "its events are kept"), 7u);
}

} // namespace
