// Token files of every kind: rows, targets, order, and what is wrong with bad ones.
#include "Scratch.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Format/Safetensors.h"
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

DataOptions options(const std::string &file, uint64_t seq = 4, uint64_t vocabulary = 300) {
  DataOptions o;
  o.files = {file};
  o.seq = seq;
  o.vocabulary = vocabulary;
  return o;
}

struct Row {
  std::vector<int32_t> tokens, targets;
  bool operator==(const Row &) const = default;
};

Row rowOf(const DataSet &data, uint64_t row, uint64_t seq = 4) {
  Row r{std::vector<int32_t>(seq, -7), std::vector<int32_t>(seq, -7)};
  EXPECT_OK(data.fillRow(row, r.tokens.data(), r.targets.data()));
  return r;
}

std::string message(const DataOptions &o) {
  const auto data = DataSet::open(o);
  EXPECT_FALSE(data.isOk());
  return data.status().message();
}

/// Every stream format must give these rows for the tokens 10, 11, ... 19 and S = 4.
void expectStream(const DataOptions &o) {
  const auto data = DataSet::open(o);
  ASSERT_OK(data.status());
  ASSERT_EQ((*data)->rows(), 2u) << o.files[0];
  EXPECT_EQ(rowOf(**data, 0), (Row{{10, 11, 12, 13}, {11, 12, 13, 14}}));
  EXPECT_EQ(rowOf(**data, 1), (Row{{14, 15, 16, 17}, {15, 16, 17, 18}}));
  EXPECT_EQ(rowOf(**data, 2), rowOf(**data, 0)) << "the second epoch begins";
  EXPECT_EQ(*(*data)->countTargets(0, 3), 12u);
}

template <typename T> std::vector<T> tenTokens() {
  std::vector<T> tokens;
  for (int i = 10; i < 20; ++i)
    tokens.push_back(static_cast<T>(i));
  return tokens;
}

template <typename T> std::string llmc(int32_t magic, int32_t version, int32_t count, const std::vector<T> &tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return bytesOf(header) + bytesOf(tokens);
}

std::string megatronIndex(uint8_t code, uint64_t tokenBytes, const std::vector<int32_t> &lengths,
                          uint64_t version = 1) {
  std::string index("MMIDIDX\0\0", 9);
  const uint64_t sequences = lengths.size(), documents = 1;
  index += bytesOf<uint64_t>({version});
  index += static_cast<char>(code);
  index += bytesOf<uint64_t>({sequences, documents});
  index += bytesOf(lengths);
  int64_t offset = 0;
  for (int32_t length : lengths) {
    index += bytesOf<int64_t>({offset});
    offset += length * static_cast<int64_t>(tokenBytes);
  }
  return index + bytesOf<int64_t>({0});
}

TEST(Data, EveryStreamFormatGivesTheSameRows) {
  const Scratch scratch;
  expectStream(options(scratch.write("nano.bin", bytesOf(tenTokens<uint16_t>()))));
  expectStream(options(scratch.write("gpt2.bin", llmc<uint16_t>(20240520, 1, 10, tenTokens<uint16_t>()))));
  expectStream(options(scratch.write("llama3.bin", llmc<uint32_t>(20240801, 7, 10, tenTokens<uint32_t>()))));
  scratch.write("mega.idx", megatronIndex(4, 4, {3, 7}));
  expectStream(options(scratch.write("mega.bin", bytesOf(tenTokens<int32_t>()))));
  expectStream(options(scratch.path("mega.idx")));
  scratch.write("mega16.idx", megatronIndex(8, 2, {10}));
  expectStream(options(scratch.write("mega16.bin", bytesOf(tenTokens<uint16_t>()))));
  DataOptions text = options(scratch.write("text", bytesOf(tenTokens<uint8_t>())));
  text.bytesTokenizer = true;
  expectStream(text);
}

TEST(Data, BadStreamsAreNamed) {
  const Scratch scratch;
  EXPECT_THAT(message(options(scratch.path("none.bin"))), HasSubstr("none.bin"));
  EXPECT_THAT(message(options(scratch.path("none.txt"))), HasSubstr("none.txt"));
  EXPECT_THAT(message(options(scratch.write("text.txt", "hello"))), HasSubstr("--tokenizer=bytes"));
  EXPECT_THAT(message(options(scratch.write("odd.bin", "abc"))), HasSubstr("16-bit"));
  EXPECT_THAT(message(options(scratch.write("empty.bin", ""))), HasSubstr("empty"));
  EXPECT_THAT(message(options(scratch.write("short.bin", "abcdefgh"))), HasSubstr("empty"))
      << "four tokens have no target for the fourth";
  EXPECT_THAT(message(options(scratch.write("v.bin", llmc<uint16_t>(20240520, 2, 10, tenTokens<uint16_t>())))),
              HasSubstr("version 2"));
  EXPECT_THAT(message(options(scratch.write("t.bin", llmc<uint16_t>(20240520, 1, 11, tenTokens<uint16_t>())))),
              HasSubstr("truncated"));
  EXPECT_THAT(message(options(scratch.write("s.bin", llmc<uint16_t>(20240520, 1, 9, tenTokens<uint16_t>())))),
              HasSubstr("holds 10 tokens, its header promises 9"));
  EXPECT_THAT(message(options(scratch.write("h.bin", bytesOf<int32_t>({20240801, 7})))), HasSubstr("truncated"));
  DataOptions narrow = options(scratch.path("text.txt"), 4, 255);
  narrow.bytesTokenizer = true;
  EXPECT_THAT(message(narrow), HasSubstr("256"));
  DataOptions empty = options(scratch.write("empty.txt", ""));
  empty.bytesTokenizer = true;
  EXPECT_THAT(message(empty), HasSubstr("empty"));

  const std::string index = megatronIndex(4, 4, {3, 7});
  scratch.write("m.bin", bytesOf(tenTokens<int32_t>()));
  for (size_t length = 0; length < index.size() - 8; ++length) { // the document starts at the end are not needed
    scratch.write("m.idx", index.substr(0, length));
    EXPECT_FALSE(DataSet::open(options(scratch.path("m.bin"))).isOk()) << length;
  }
  scratch.write("m.idx", megatronIndex(6, 8, {10}));
  EXPECT_THAT(message(options(scratch.path("m.bin"))), HasSubstr("not an integer type"));
  scratch.write("m.idx", megatronIndex(4, 4, {11}));
  EXPECT_THAT(message(options(scratch.path("m.bin"))), HasSubstr("truncated"));
  scratch.write("m.idx", megatronIndex(4, 8, {3, 7}));
  EXPECT_THAT(message(options(scratch.path("m.bin"))), HasSubstr("corrupted"));
  scratch.write("m.idx", megatronIndex(4, 4, {10}, 9));
  EXPECT_THAT(message(options(scratch.path("m.bin"))), HasSubstr("version 9"));
}

TEST(Data, WideTokensWithoutAHeaderAreNotReadAsNarrowOnes) {
  const Scratch scratch;
  DataOptions wide = options(scratch.write("wide.bin", bytesOf(tenTokens<uint32_t>())));
  EXPECT_THAT(message(wide), HasSubstr("--token-bytes=4"));
  wide.tokenBytes = 4;
  expectStream(wide);
  wide.tokenBytes = 2;
  EXPECT_OK(DataSet::open(wide).status()) << "whoever says so means it";
  DataOptions narrow = options(scratch.write("narrow.bin", bytesOf(tenTokens<uint16_t>())));
  narrow.vocabulary = 128256;
  EXPECT_THAT(message(narrow), HasSubstr("do not fit 16 bits"));
  narrow.tokenBytes = 2;
  expectStream(narrow);
  DataOptions said = options(scratch.write("gpt2.bin", llmc<uint16_t>(20240520, 1, 10, tenTokens<uint16_t>())));
  said.tokenBytes = 4;
  EXPECT_THAT(message(said), HasSubstr("leave the option out"));
  DataOptions odd = options(scratch.write("odd4.bin", "abcdef"));
  odd.tokenBytes = 4;
  EXPECT_THAT(message(odd), HasSubstr("32-bit"));
}

TEST(Data, RowsAreReadThroughBeforeARun) {
  const Scratch scratch;
  const auto data = DataSet::open(options(scratch.write("f.bin", bytesOf(tenTokens<uint16_t>())), 4, 16));
  ASSERT_OK(data.status());
  EXPECT_THAT((*data)->checkRows(20).message(), HasSubstr("token 16 at byte 12"));
  EXPECT_OK((*data)->checkRows(19)) << "too large a file";
}

TEST(Data, ATokenBeyondTheVocabularyIsFoundWithItsPlace) {
  const Scratch scratch;
  const auto data = DataSet::open(options(scratch.write("f.bin", bytesOf(tenTokens<uint16_t>())), 4, 16));
  ASSERT_OK(data.status());
  int32_t tokens[4], targets[4];
  EXPECT_OK((*data)->fillRow(0, tokens, targets));
  const Status status = (*data)->fillRow(1, tokens, targets);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("f.bin"));
  EXPECT_THAT(status.message(), HasSubstr("token 16 at byte 12"));
}

template <typename T>
std::string safetensors(const std::vector<int64_t> &shape, const std::vector<T> &ids, const std::vector<T> &labels,
                        const std::vector<T> &mask = {}) {
  const plan::DataType type = sizeof(T) == 8 ? plan::I64 : plan::I32;
  std::vector<SafetensorsSpec> specs = {{"input_ids", type, shape}, {"labels", type, shape}};
  if (!mask.empty())
    specs.push_back({"attention_mask", type, shape});
  return layoutSafetensors(specs).header + bytesOf(ids) + bytesOf(labels) + bytesOf(mask);
}

TEST(Data, SafetensorsLabelsAreShiftedInside) {
  const Scratch scratch;
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8}, labels = {-100, 2, -100, 4, 5, -100, -100, 9};
  const auto data =
      DataSet::open(options(scratch.write("d.safetensors", safetensors<int64_t>({1, 2, 4}, ids, labels))));
  ASSERT_OK(data.status());
  EXPECT_EQ((*data)->rows(), 2u);
  EXPECT_EQ(rowOf(**data, 0), (Row{{1, 2, 3, 4}, {2, kIgnoredTarget, 4, kIgnoredTarget}}));
  EXPECT_EQ(rowOf(**data, 1), (Row{{5, 6, 7, 8}, {kIgnoredTarget, kIgnoredTarget, 9, kIgnoredTarget}}));
  EXPECT_EQ(*(*data)->countTargets(0, 2), 3u);
  EXPECT_EQ(*(*data)->countTargets(1, 1), 1u);
  const auto narrow = DataSet::open(options(scratch.write(
      "i32.safetensors", safetensors<int32_t>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}))));
  EXPECT_EQ(rowOf(**narrow, 1), (Row{{5, 6, 7, 8}, {6, 7, 8, kIgnoredTarget}}));
}

TEST(Data, WeightsStandAtTheirLabels) {
  const Scratch scratch;
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8}, labels = {-100, 2, -100, 4, 5, 6, 7, 8};
  const auto file = [&](const std::vector<float> &weights, plan::DataType type = plan::F32,
                        const std::vector<int64_t> &shape = {2, 4}) {
    return scratch.write("w.safetensors", layoutSafetensors({{"input_ids", plan::I64, {2, 4}},
                                                             {"labels", plan::I64, {2, 4}},
                                                             {"loss_weights", type, shape}})
                                                  .header +
                                              bytesOf(ids) + bytesOf(labels) + bytesOf(weights));
  };
  const std::vector<float> weights = {9, 0.5, 2, 1, 9, 0, 3, 0.25};
  const auto data = DataSet::open(options(file(weights)));
  ASSERT_OK(data.status());
  EXPECT_TRUE((*data)->fileWithWeights());
  std::vector<float> row(4);
  ASSERT_OK((*data)->fillWeights(1, row.data()));
  EXPECT_EQ(row, (std::vector<float>{0, 3, 0.25, 1}));
  EXPECT_EQ(*(*data)->countTargets(0, 2), 4u) << "a weight of 0 does not count";
  DataOptions packed = options(file(weights));
  packed.pack = true;
  const auto together = DataSet::open(packed);
  ASSERT_OK(together.status());
  std::vector<std::vector<float>> rows;
  for (uint64_t r = 0; r < (*together)->rows(); ++r) {
    ASSERT_OK((*together)->fillWeights(r, row.data()));
    rows.push_back(row);
  }
  EXPECT_THAT(rows, testing::UnorderedElementsAre(std::vector<float>{0.5, 2, 1, 1}, std::vector<float>{0, 3, 0.25, 1}));
  EXPECT_THAT(message(options(file(weights, plan::I32))), HasSubstr("loss_weights has the type I32, F32 is needed"));
  EXPECT_THAT(message(options(file(weights, plan::F32, {8}))),
              HasSubstr("loss_weights has the shape [8], labels [2, 4]"));
  for (float bad : {-1.0f, 1e9f, std::numeric_limits<float>::quiet_NaN()}) {
    const auto wrong = DataSet::open(options(file({1, 1, bad, 1, 1, 1, 1, 1})));
    ASSERT_OK(wrong.status());
    EXPECT_THAT((*wrong)->fillWeights(0, row.data()).message(), HasSubstr("(loss_weights, row 0, position 2)"));
  }
  const auto none = DataSet::open(options(scratch.write("n.safetensors", safetensors<int64_t>({2, 4}, ids, labels))));
  EXPECT_FALSE((*none)->fileWithWeights());
  ASSERT_OK((*none)->fillWeights(0, row.data()));
  EXPECT_EQ(row, (std::vector<float>(4, 1)));
}

TEST(Data, BadSafetensorsAreNamed) {
  const Scratch scratch;
  const std::vector<int64_t> good = {1, 2, 3, 4};
  const auto open = [&](const std::string &bytes, uint64_t seq = 4) {
    return options(scratch.write("d.safetensors", bytes), seq, 300);
  };
  EXPECT_THAT(message(open(safetensors<int64_t>({1, 4}, good, good), 8)), HasSubstr("--seq=8"));
  EXPECT_THAT(message(open(safetensors<int64_t>({4}, good, good))), HasSubstr("[N, B, S]"));
  EXPECT_THAT(message(open(safetensors<int64_t>({0, 4}, {}, {}))), HasSubstr("empty"));
  EXPECT_THAT(message(open(layoutSafetensors({{"input_ids", plan::I64, {1, 4}}}).header + bytesOf(good))),
              HasSubstr("labels"));
  EXPECT_THAT(
      message(open(layoutSafetensors({{"input_ids", plan::F32, {0, 4}}, {"labels", plan::I64, {0, 4}}}).header)),
      HasSubstr("F32"));
  EXPECT_THAT(message(open(safetensors<int64_t>({1, 4}, good, good, {0, 1, 1, 1}))), HasSubstr("padded on the left"));
  EXPECT_THAT(message(open(safetensors<int64_t>({1, 4}, good, good, {1, 1, 2, 1}))), HasSubstr("only 0 and 1"));
  EXPECT_TRUE(DataSet::open(open(safetensors<int64_t>({1, 4}, good, good, {1, 1, 0, 0}))).isOk());
  const std::string bytes = safetensors<int64_t>({1, 4}, good, good);
  for (size_t length = 0; length < bytes.size(); length += 3)
    EXPECT_FALSE(DataSet::open(open(bytes.substr(0, length))).isOk()) << length;

  int32_t tokens[4], targets[4];
  const auto beyond = DataSet::open(open(safetensors<int64_t>({1, 4}, {1, 300, 3, 4}, good)));
  EXPECT_THAT((*beyond)->fillRow(0, tokens, targets).message(), HasSubstr("the token 300 at byte"));
  const auto label = DataSet::open(open(safetensors<int64_t>({1, 4}, good, {1, 2, -5, 4})));
  EXPECT_THAT((*label)->fillRow(0, tokens, targets).message(), HasSubstr("labels, row 0, position 2"));
  const auto ignored = DataSet::open(open(safetensors<int64_t>({1, 4}, good, {-5, 2, 3, 4})));
  EXPECT_OK((*ignored)->fillRow(0, tokens, targets)) << "the first label is nobody's target";
}

TEST(Data, FilesFollowEachOtherAndGlobalBatchesMustFit) {
  const Scratch scratch;
  DataOptions o = options(scratch.write("a.bin", bytesOf(tenTokens<uint16_t>())));
  o.files.push_back(scratch.write("b.bin", bytesOf<uint16_t>({1, 2, 3, 4, 5})));
  const auto data = DataSet::open(o);
  ASSERT_OK(data.status());
  EXPECT_EQ((*data)->rows(), 3u);
  EXPECT_EQ(rowOf(**data, 2), (Row{{1, 2, 3, 4}, {2, 3, 4, 5}}));
  EXPECT_OK((*data)->checkGlobalBatch(3));
  EXPECT_THAT((*data)->checkGlobalBatch(4).message(), HasSubstr("3 rows"));
  EXPECT_EQ((*data)->cursor(7), (DataCursor{2, 1}));
  EXPECT_EQ((*data)->position({2, 1}), 7u);
  o.files.push_back(scratch.write("c.bin", "abcd"));
  EXPECT_THAT(message(o), HasSubstr("c.bin"));
}

TEST(Data, ShuffledEpochsHoldEveryRowOnceInAnotherOrder) {
  const Scratch scratch;
  std::vector<uint16_t> tokens;
  for (uint16_t i = 0; i < 50 * 4 + 1; ++i)
    tokens.push_back(i);
  DataOptions o = options(scratch.write("a.bin", bytesOf(tokens)));
  o.shuffle = true;
  o.seed = 5;
  const auto data = DataSet::open(o), same = DataSet::open(o);
  o.seed = 6;
  const auto other = DataSet::open(o);
  std::vector<std::vector<int32_t>> orders;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> order, otherOrder;
    for (uint64_t row = 0; row < 50; ++row) {
      order.push_back(rowOf(**data, epoch * 50 + row).tokens[0]);
      otherOrder.push_back(rowOf(**other, epoch * 50 + row).tokens[0]);
      EXPECT_EQ(rowOf(**same, epoch * 50 + row).tokens[0], order.back());
    }
    EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 50u);
    EXPECT_NE(order, otherOrder);
    orders.push_back(order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

} // namespace
