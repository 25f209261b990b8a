// safetensors files, folders and manifests: layout, lookup, and readers that survive any bytes.
#include "runtime/Format/Safetensors.h"
#include "Scratch.h"
#include "runtime/Checkpoint/SharedWork.h"
#include "runtime/Format/Manifest.h"
#include <array>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

std::string fileOf(const std::vector<SafetensorsSpec> &specs) {
  SafetensorsLayout layout = layoutSafetensors(specs);
  std::string bytes = layout.header;
  bytes.resize(layout.fileBytes);
  for (size_t i = layout.header.size(); i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i);
  return bytes;
}

/// A file with this header and `data` bytes after it.
std::string withHeader(std::string header, size_t data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, 'x');
}

StatusOr<std::vector<SafetensorsTensor>> parse(std::string_view bytes) {
  return parseSafetensorsHeader({reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()}, bytes.size(), "f");
}

TEST(Safetensors, WrittenFilesRead) {
  const Scratch scratch;
  const std::string path = scratch.write("f.safetensors", fileOf({{"b", plan::F32, {2, 3}},
                                                                  {"a\"\\", plan::BF16, {5}},
                                                                  {"scalar", plan::I64, {}},
                                                                  {"none", plan::F32, {0, 4}}}));
  const StatusOr<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_OK(file.status());
  ASSERT_EQ(file->tensors().size(), 4u);
  const SafetensorsTensor *b = file->find("b");
  ASSERT_TRUE(b && file->find("a\"\\") && file->find("scalar") && file->find("none"));
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b->bytes, 24u);
  EXPECT_EQ(b->offset % 8, 0u);
  EXPECT_EQ(file->find("scalar")->bytes, 8u);
  EXPECT_EQ(file->find("a\"\\")->offset, b->offset + 24);
  EXPECT_EQ(file->find("missing"), nullptr);
  EXPECT_EQ(static_cast<uint8_t>(file->data(*b)[0]), static_cast<uint8_t>(b->offset));
}

TEST(Safetensors, TheHeaderIsWhatItIsEverywhere) {
  const SafetensorsLayout layout = layoutSafetensors({{"w", plan::F32, {2}}});
  const std::string json = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(layout.header.substr(8, json.size()), json);
  EXPECT_EQ(layout.header.size() % 8, 0u);
  EXPECT_EQ(layout.offsets, std::vector<uint64_t>{layout.header.size()});
  EXPECT_EQ(layout.fileBytes, layout.header.size() + 8);
}

TEST(Safetensors, BadHeadersAreNamed) {
  const std::pair<std::string, const char *> cases[] = {
      {"", "not a safetensors file"},
      {"1234567", "not a safetensors file"},
      {std::string(8, '\xff'), "not a safetensors file"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "truncated"},
      {withHeader("[]", 0), "not a JSON object"},
      {withHeader("{\"a\":", 0), "not a JSON object"},
      {withHeader(R"({"a":5})", 0), "not an object"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "missing"},
      {withHeader(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), "missing"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "dimension"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "dimension"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4), "overflows"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "not a range"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7), "truncated"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8), "4 bytes for 2 elements"},
      {withHeader(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
           8),
       "overlap"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8), "belong to no tensor"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "belong to no tensor"},
      {withHeader(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       "'a' stands twice"},
      {withHeader(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       "'b' stands twice"},
      {withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"shape":[1,1]}})", 4),
       "'shape' stands twice"},
  };
  for (const auto &[bytes, message] : cases) {
    const auto parsed = parse(bytes);
    EXPECT_FALSE(parsed.isOk()) << bytes;
    EXPECT_THAT(parsed.status().message(), HasSubstr(message)) << bytes;
  }
}

TEST(Safetensors, EveryTruncationFailsAndNoBytesCrash) {
  const std::string good = fileOf({{"a", plan::F32, {2, 3}}, {"b", plan::I64, {4}}});
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(parse(std::string_view(good).substr(0, length)).isOk()) << length;
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (unsigned flips = 1 + random() % 4; flips; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto tensors = parse(bytes);
    if (!tensors.isOk())
      continue;
    for (const SafetensorsTensor &tensor : *tensors)
      ASSERT_TRUE(tensor.offset <= bytes.size() && tensor.bytes <= bytes.size() - tensor.offset);
  }
  // Nesting deeper than any stack.
  EXPECT_FALSE(parse(withHeader(std::string(500'000, '['), 0)).isOk());
}

TEST(Safetensors, FoldersWithAndWithoutIndex) {
  const Scratch scratch;
  EXPECT_EQ(SafetensorsCollection::open(scratch.path()).status().code(), StatusCode::NotFound);
  scratch.write("model-00001-of-00002.safetensors", fileOf({{"a", plan::F32, {2}}}));
  scratch.write("model-00002-of-00002.safetensors", fileOf({{"b", plan::F16, {3}}}));
  const std::string index = "model.safetensors.index.json";
  scratch.write(index,
                R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  const StatusOr<SafetensorsCollection> folder = SafetensorsCollection::open(scratch.path());
  ASSERT_OK(folder.status());
  EXPECT_EQ(folder->find("b")->tensor->shape, std::vector<int64_t>{3});
  EXPECT_FALSE(folder->find("c").has_value());
  EXPECT_EQ(folder->files().size(), 2u);
  for (const char *bad :
       {R"({})", "no json", R"({"weight_map":{"a":5}})", R"({"weight_map":{"a":"../elsewhere.safetensors"}})",
        R"({"weight_map":{"c":"model-00001-of-00002.safetensors"}})",
        R"({"weight_map":{"a":"missing.safetensors"}})"}) {
    scratch.write(index, bad);
    EXPECT_FALSE(SafetensorsCollection::open(scratch.path()).isOk()) << bad;
  }
  EXPECT_OK(removeAll(scratch.path(index)));
  scratch.write("model.safetensors", fileOf({{"w", plan::F32, {2}}, {"block.norm.weight", plan::F32, {2}}}));
  EXPECT_TRUE(SafetensorsCollection::open(scratch.path())->hasModule("block"));
  EXPECT_TRUE(SafetensorsCollection::open(scratch.path())->hasModule("block.norm"));
  for (const char *none : {"w", "block.norm.weight", "bloc", ""})
    EXPECT_FALSE(SafetensorsCollection::open(scratch.path())->hasModule(none)) << none;
  EXPECT_TRUE(SafetensorsCollection::open(scratch.path())->find("w").has_value());
  EXPECT_TRUE(SafetensorsCollection::open(scratch.path("model.safetensors"))->find("w").has_value());
}

TEST(Manifest, RoundTripAndDamage) {
  const Scratch scratch;
  scratch.write("a", "hello");
  scratch.write("empty", "");
  std::array<std::byte, 3> staging{};
  const auto describe = [&] { return *describeTogether(nullptr, scratch.path(), {"a", "empty"}, staging); };
  const Manifest manifest = describe();
  EXPECT_EQ(manifest.files[0].sha256,
            std::vector<std::string>{"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"});
  const StatusOr<Manifest> read = parseManifest(printManifest(manifest), "m");
  ASSERT_OK(read.status());
  EXPECT_OK(verifySizes(*read, scratch.path()));
  EXPECT_OK(compareChecksums(*read, manifest, scratch.path()));
  scratch.write("a", "hellO");
  EXPECT_OK(verifySizes(*read, scratch.path()));
  EXPECT_THAT(compareChecksums(*read, describe(), scratch.path()).message(), HasSubstr("corrupted"));
  scratch.write("a", "hell");
  EXPECT_THAT(verifySizes(*read, scratch.path()).message(), HasSubstr("4 bytes"));
  EXPECT_OK(removeAll(scratch.path("a")));
  EXPECT_EQ(verifySizes(*read, scratch.path()).code(), StatusCode::DataLoss);
  const std::string text = printManifest(manifest);
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_FALSE(parseManifest(std::string_view(text).substr(0, length), "m").isOk()) << length;
  EXPECT_FALSE(parseManifest(R"({"version":1,"files":[{"name":"../x","size":0,"sha256":[]}]})", "m").isOk());
  EXPECT_FALSE(parseManifest(R"({"version":2,"files":[]})", "m").isOk());
}

} // namespace
