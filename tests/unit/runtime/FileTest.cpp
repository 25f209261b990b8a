// Files: what is written is read, replacement is all or nothing, errors name the file.
#include "runtime/Core/File.h"
#include "Scratch.h"
#include "runtime/Core/FloatTypes.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

TEST(File, PositionalWritesAndReads) {
  const Scratch scratch;
  {
    StatusOr<File> file = File::open(scratch.path("f"), File::Mode::Create);
    ASSERT_OK(file.status());
    EXPECT_OK(file->reserve(10));
    EXPECT_OK(file->writeAt(4, "abc", 3));
    EXPECT_EQ(*file->size(), 10u);
    EXPECT_OK(file->sync());
  }
  StatusOr<File> file = File::open(scratch.path("f"), File::Mode::Read);
  char buffer[4] = {};
  EXPECT_OK(file->readAt(4, buffer, 3));
  EXPECT_STREQ(buffer, "abc");
  EXPECT_EQ(file->readAt(8, buffer, 3).code(), StatusCode::DataLoss);
  StatusOr<MappedFile> mapped = MappedFile::open(scratch.path("f"));
  ASSERT_OK(mapped.status());
  EXPECT_EQ(mapped->size(), 10u);
  EXPECT_EQ(std::memcmp(mapped->bytes().data() + 4, "abc", 3), 0);
  scratch.write("empty", "");
  EXPECT_EQ(MappedFile::open(scratch.path("empty"))->size(), 0u);
}

TEST(File, ErrorsNameTheFile) {
  const Scratch scratch;
  EXPECT_EQ(MappedFile::open(scratch.path("none")).status().code(), StatusCode::NotFound);
  EXPECT_THAT(File::open(scratch.path("none"), File::Mode::Read).status().message(), HasSubstr(scratch.path("none")));
  EXPECT_THAT(MappedFile::open(scratch.path()).status().message(), HasSubstr("directory"));
  EXPECT_FALSE(readWholeFile(scratch.path()).isOk());
  EXPECT_FALSE(replaceFile(scratch.path(), "x").isOk());
  EXPECT_FALSE(makeFolders(scratch.write("file", "x")).isOk());
  EXPECT_FALSE(checkWritable("/proc/nothing").isOk());
}

TEST(File, AFailedReplacementLeavesTheOldContent) {
  const Scratch scratch;
  const std::string path = scratch.write("f", "old");
  const Status status = replaceFile(path, [](const File &file) {
    EXPECT_OK(file.writeAt(0, "new", 3));
    return resourceExhausted("full");
  });
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  EXPECT_EQ(*readWholeFile(path), "old");
  EXPECT_EQ(listFolder(scratch.path())->size(), 1u);
  EXPECT_OK(replaceFile(path, "new"));
  EXPECT_EQ(*readWholeFile(path), "new");
}

TEST(File, DevicesAreNotReplacedAndLinksStay) {
  const Scratch scratch;
  EXPECT_OK(replaceFile("/dev/null", "x"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(replaceFile("/dev/full", "x").code(), StatusCode::ResourceExhausted);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_THAT(replaceablePath("/dev/null").status().message(), HasSubstr("device"));
  const std::string target = scratch.write("target", "old"), link = scratch.path("link");
  std::filesystem::create_symlink(target, link);
  EXPECT_OK(replaceFile(link, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(*readWholeFile(target), "new");
}

TEST(File, PathsSwap) {
  const Scratch scratch;
  scratch.write("a", "1");
  scratch.write("b", "2");
  EXPECT_OK(exchangePaths(scratch.path("a"), scratch.path("b")));
  EXPECT_EQ(*readWholeFile(scratch.path("a")), "2");
  EXPECT_EQ(*readWholeFile(scratch.path("b")), "1");
  EXPECT_EQ(parentFolder("a/b"), "a");
  EXPECT_EQ(parentFolder("b"), ".");
}

TEST(FloatTypes, EveryHalfAndEveryBf16ComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = fromF16(static_cast<uint16_t>(bits)), brain = fromBf16(static_cast<uint16_t>(bits));
    if (std::isnan(half))
      EXPECT_TRUE(std::isnan(fromF16(toF16(half))));
    else
      EXPECT_EQ(toF16(half), bits);
    if (std::isnan(brain))
      EXPECT_TRUE(std::isnan(fromBf16(toBf16(brain))));
    else
      EXPECT_EQ(toBf16(brain), bits);
  }
}

TEST(FloatTypes, RoundingIsToNearestEven) {
  for (uint32_t i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(i * 21473u + 12345u);
    if (std::isnan(value))
      continue;
    // Against the neighbours: no other value is nearer, and a tie has an even last bit.
    const uint16_t half = toF16(value);
    if ((half & 0x7c00) != 0x7c00) {
      const double error = std::fabs(double(fromF16(half)) - value);
      for (int step : {-1, 1}) {
        const auto other = static_cast<uint16_t>(half + step);
        if ((other & 0x8000) != (half & 0x8000) || (other & 0x7c00) == 0x7c00)
          continue;
        const double otherError = std::fabs(double(fromF16(other)) - value);
        ASSERT_TRUE(error < otherError || (error == otherError && half % 2 == 0)) << value;
      }
    } else {
      ASSERT_GE(std::fabs(value), 65520.0f);
    }
    const uint16_t brain = toBf16(value);
    const double error = std::fabs(double(fromBf16(brain)) - value);
    const float up = fromBf16(static_cast<uint16_t>(brain + 1));
    if (std::isfinite(up) && std::isfinite(fromBf16(brain))) {
      const double otherError = std::fabs(double(up) - value);
      ASSERT_TRUE(error < otherError || (error == otherError && brain % 2 == 0)) << value;
    }
  }
}

} // namespace
