// Sizes, SHA-256, random streams and processor features against published or exhaustive references.
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/Crc32c.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/NearestName.h"
#include "runtime/Core/Numbers.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Random.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Core/Sizes.h"
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace ztc;

namespace {

TEST(Json, PythonsNumbersAreRead) {
  const auto json = parseJson(R"({"limit": [0.0, Infinity, -Infinity, NaN], "Infinity": "NaN \"Infinity\""})");
  ASSERT_TRUE(json.is_object());
  const auto named = [](const char *name) { return nlohmann::json{{"__float__", name}}; };
  EXPECT_EQ(json["limit"], (nlohmann::json{0.0, named("Infinity"), named("-Infinity"), named("NaN")}));
  EXPECT_EQ(json["Infinity"], "NaN \"Infinity\"");
  for (const char *text : {"{\"a\": Infinit}", "Infinity \\", "{\"a\": \"Infinity"})
    EXPECT_FALSE(parseJson(text).is_object() && parseJson(text).contains("a")) << text;
}

TEST(Json, PythonsNumbersAreWrittenBack) {
  const std::string text = R"({"limit": [0.0, Infinity, -Infinity, NaN], "text": "\"__float__\": \"NaN\""})";
  EXPECT_EQ(withBareNumbers(withPythonsNumbers(text)), text);
  EXPECT_EQ(withBareNumbers("{\"a\": {\n  \"__float__\" : \"Infinity\"\n }}"), "{\"a\": Infinity}");
  for (const char *other : {R"({"__float__": "Infinit"})", R"({"__float__": "Infinity")", R"({"__float__")",
                            R"("__float__": "NaN"})", R"({"__float__": "NaN", "a": 1})", ""})
    EXPECT_EQ(withBareNumbers(other), other);
}

TEST(Numbers, AsPeopleWriteThem) {
  for (const auto &[text, number] :
       {std::pair("0", "0"), {"0100", "100"}, {"18446744073709551615", "18446744073709551615"}}) {
    const StatusOr<std::string> whole = wholeNumber(text);
    ASSERT_TRUE(whole.isOk()) << text;
    EXPECT_EQ(*whole, number);
  }
  for (const char *text : {"", "-1", "+1", "1e3", "0x10", " 1", "1 ", "18446744073709551616"})
    EXPECT_FALSE(wholeNumber(text).isOk()) << text;
  for (const char *text : {"0", "-1", "+2.5", "1e-320", "3e-4", "1e38"})
    EXPECT_TRUE(checkReal(text).isOk() || std::string_view(text) == "1e-320") << text;
  for (const char *text : {"", "-", "nan", "inf", "1e999", "0.1x", "1,5"})
    EXPECT_FALSE(checkReal(text).isOk()) << text;
}

TEST(Numbers, TimesHaveUnits) {
  EXPECT_EQ(*parseDuration("90s"), 90);
  EXPECT_EQ(*parseDuration("30m"), 1800);
  EXPECT_EQ(*parseDuration("1.5h"), 5400);
  EXPECT_EQ(*parseDuration("2d"), 172800);
  for (const char *bad : {"", "30", "s", "0s", "-1m", "1w", "1h30m", "1e400s", "nanh"})
    EXPECT_FALSE(parseDuration(bad).isOk()) << bad;
  EXPECT_NE(parseDuration("30").status().message().find("no unit"), std::string::npos);
}

TEST(Crc32c, PublishedVectors) { // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff').data(), 32), 0x62A8AB43u);
  EXPECT_EQ(crc32c("", 0), 0u);
}

TEST(Print, NothingThatATerminalObeys) {
  EXPECT_EQ(printable("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(printable("x\x1b]0;title\x07y\x7f"), "x\\x1b]0;title\\x07y\\x7f");
  EXPECT_EQ(printable("Größe \u4f60"), "Größe \u4f60");
  EXPECT_EQ(printable("\xc2\x9b!\xff\xe4"), "\\xc2\\x9b!\\xff\\xe4");
  EXPECT_EQ(printable(std::string(100'000, 'x'), 10), "xxxxxxxxxx... (99990 bytes more)");
}

TEST(Sizes, Parse) {
  const std::pair<const char *, uint64_t> good[] = {{"0", 0},
                                                    {"4096B", 4096},
                                                    {"4194304", 4194304},
                                                    {"78GiB", 78ull << 30},
                                                    {"512 MiB", 512ull << 20},
                                                    {"512mib", 512ull << 20},
                                                    {"2G", 2ull << 30},
                                                    {"80GB", 80'000'000'000},
                                                    {"1e9", 1'000'000'000},
                                                    {"1.5KiB", 1536},
                                                    {"1TiB", 1ull << 40},
                                                    {"9007199254740993", 9007199254740993},
                                                    {"7 B", 7}};
  for (const auto &[text, bytes] : good) {
    const StatusOr<uint64_t> size = parseSize(text);
    ASSERT_TRUE(size.isOk()) << text;
    EXPECT_EQ(*size, bytes) << text;
  }
  for (const char *bad :
       {"", "GiB", "-1", "1XB", "12 GiBs", "nan", "inf", "1e30", "0x10", "5 5", "1KiBB", "99999999999TiB"})
    EXPECT_FALSE(parseSize(bad).isOk()) << bad;
}

TEST(Sizes, AFewWithoutAUnitAreAskedForIt) {
  EXPECT_EQ(parseSize("40").status().message(), "'40' has no unit: write 40GiB or 40MiB");
  EXPECT_FALSE(parseSize("4096").isOk());
}

TEST(NearestName, FindsWhatWasMeant) {
  const std::vector<std::string> names{"--zero", "--seq", "--precision", "--precision-policy", "--learning-rate"};
  EXPECT_EQ(nearestName("--zeroo", names), "--zero");
  EXPECT_EQ(nearestName("--ezro", names), "--zero");
  EXPECT_EQ(nearestName("--learning_rate", names), "--learning-rate");
  EXPECT_EQ(nearestName("--prec", names), "--precision");
  EXPECT_EQ(nearestName("--nothing-like-it", names), "");
}

TEST(Sizes, Format) {
  EXPECT_EQ(formatSize(0), "0 B");
  EXPECT_EQ(formatSize(1023), "1023 B");
  EXPECT_EQ(formatSize(1536), "1.50 KiB");
  EXPECT_EQ(formatSize(78ull << 30), "78.0 GiB");
  EXPECT_EQ(formatSize((1ull << 30) - 1), "1.00 GiB");
  EXPECT_EQ(formatSize(3ull << 50), "3072 TiB");
}

TEST(Sha256, PublishedVectors) {
  const auto hex = [](std::string_view text) { return Sha256::hex(Sha256::of(text.data(), text.size())); };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameDigest) {
  std::string text(1000, ' ');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(i * 37);
  const Sha256Digest whole = Sha256::of(text.data(), text.size());
  for (size_t piece : {1, 7, 63, 64, 65, 300}) {
    Sha256 hash;
    for (size_t i = 0; i < text.size(); i += piece)
      hash.update(std::string_view(text).substr(i, piece));
    EXPECT_EQ(hash.finish(), whole) << piece;
  }
}

TEST(Random, PhiloxKnownAnswers) { // kat_vectors of Random123
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, NormalsHaveMeanZeroAndVarianceOneAndAnyRangeIsTheSame) {
  const uint64_t stream = hashName("model.layers.0.mlp.up_proj.weight");
  std::vector<float> all(100'000), part(1000);
  fillNormal(all.data(), all.size(), 1.0f, 42, stream, 0);
  double sum = 0, squares = 0;
  for (float x : all) {
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += double(x) * x;
  }
  EXPECT_NEAR(sum / double(all.size()), 0, 0.015);
  EXPECT_NEAR(squares / double(all.size()), 1, 0.02);
  for (uint64_t begin : {0, 1, 2, 3, 997}) {
    fillNormal(part.data(), part.size(), 1.0f, 42, stream, begin);
    for (size_t i = 0; i < part.size(); ++i)
      ASSERT_EQ(part[i], all[begin + i]);
    EXPECT_EQ(normalAt(42, stream, begin + 5), all[begin + 5]);
  }
  std::vector<float> together(all.size());
  fillNormal(together.data(), together.size() - 1, 1.0f, 42, stream, 1, 3);
  together.pop_back();
  EXPECT_TRUE(std::equal(together.begin(), together.end(), all.begin() + 1));
  EXPECT_NE(normalAt(43, stream, 0), all[0]);
  EXPECT_NE(normalAt(42, stream + 1, 0), all[0]);
}

TEST(Random, PermutationsAreBijections) {
  for (uint64_t count : {1, 2, 3, 5, 64, 100, 1023}) {
    std::vector<bool> seen(count);
    uint64_t fixed = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t j = permuteIndex(i, count, 7, 3);
      ASSERT_LT(j, count);
      EXPECT_FALSE(seen[j]);
      seen[j] = true;
      fixed += i == j;
    }
    if (count >= 64)
      EXPECT_LT(fixed, 10u) << count;
  }
  EXPECT_LT(permuteIndex((1ull << 40) - 1, 1ull << 40, 1, 1), 1ull << 40);
}

TEST(CpuFeatures, TheBestTargetIsSupportedAndUnknownOnesAreNot) {
  const std::string best = bestHostTarget();
  EXPECT_TRUE(best.empty() || hostSupports(best));
  EXPECT_FALSE(hostSupports("x86-64-v9"));
  EXPECT_FALSE(hostSupports(""));
  EXPECT_TRUE(!hostSupports("amx-bf16") ||
              hostSupports("avx512-bf16")); // its products round and pack by those of AVX-512
}

} // namespace
