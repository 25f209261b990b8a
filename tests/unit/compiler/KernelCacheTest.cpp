// Machine code that is kept between compilations.
#include "compiler/Codegen/KernelCache.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace ztc::codegen;

namespace {
class KernelCacheTest : public ::testing::Test {
protected:
  std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();

  void SetUp() override {
    std::filesystem::remove_all(folder);
    ASSERT_FALSE(bool(KernelCache::prepare(folder.string())));
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path entryOf(const std::string &key) const { return folder / ("llvmcache-" + key); }
};
} // namespace

TEST_F(KernelCacheTest, FindsWhatWasStored) {
  const KernelCache cache(folder.string());
  const std::string key = KernelCache::keyOf({"x86-64-v3", "a kernel"}), bytes("code\0of it", 10);
  EXPECT_FALSE(cache.find(key));
  cache.store(key, bytes);
  EXPECT_EQ(KernelCache(folder.string()).find(key), bytes);
  EXPECT_FALSE(cache.find(KernelCache::keyOf({"x86-64-v4", "a kernel"})));
}

TEST_F(KernelCacheTest, TheBordersOfPartsAreInTheKey) {
  EXPECT_NE(KernelCache::keyOf({"ab", "c"}), KernelCache::keyOf({"a", "bc"}));
  EXPECT_NE(KernelCache::keyOf({"ab"}), KernelCache::keyOf({"ab", ""}));
}

TEST_F(KernelCacheTest, DamageIsNotFound) {
  const KernelCache cache(folder.string());
  const std::string key = KernelCache::keyOf({"kernel"});
  cache.store(key, "some machine code");
  std::filesystem::resize_file(entryOf(key), std::filesystem::file_size(entryOf(key)) - 1);
  EXPECT_FALSE(cache.find(key)) << "cut short";
  std::filesystem::resize_file(entryOf(key), 7);
  EXPECT_FALSE(cache.find(key)) << "shorter than its checksum";
  cache.store(key, "some machine code");
  EXPECT_EQ(cache.find(key), "some machine code") << "stored again";
  std::fstream(entryOf(key), std::ios::in | std::ios::out | std::ios::binary).seekp(40).put('X');
  EXPECT_FALSE(cache.find(key)) << "another byte";
}

TEST_F(KernelCacheTest, IsItsOwnersAlone) {
  EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(KernelCacheTest, WithoutAFolderNothingIsKept) {
  const KernelCache cache;
  cache.store(KernelCache::keyOf({"kernel"}), "code");
  EXPECT_FALSE(cache.isOpen());
  EXPECT_FALSE(cache.find(KernelCache::keyOf({"kernel"})));
}

TEST_F(KernelCacheTest, AFileInTheWayIsNamed) {
  std::ofstream(folder / "file") << "text";
  const std::string said = llvm::toString(KernelCache::prepare((folder / "file").string()));
  EXPECT_NE(said.find((folder / "file").string()), std::string::npos) << said;
}
