// Rows of several documents: which ones go together, and what their places hold.
#include "runtime/Core/Packing.h"
#include "Scratch.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Train/DataSetRows.h"
#include "runtime/Train/GlobalBatch.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

template <typename T> std::string rawBytes(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

DataOptions packedOptions(const std::string &file, uint64_t seq = 8, std::optional<uint64_t> documentEnd = {}) {
  DataOptions o;
  o.files = {file};
  o.seq = seq;
  o.vocabulary = 300;
  o.pack = true;
  o.documentEnd = documentEnd;
  return o;
}

struct PackedRow {
  std::vector<int32_t> tokens, targets, starts;
  bool operator==(const PackedRow &) const = default;
};

PackedRow packedRowOf(const DataSet &data, uint64_t row, uint64_t seq = 8) {
  PackedRow r{std::vector<int32_t>(seq, -7), std::vector<int32_t>(seq, -7), std::vector<int32_t>(seq, -7)};
  EXPECT_OK(data.fillRow(row, r.tokens.data(), r.targets.data(), r.starts.data()));
  return r;
}

/// All rows of an epoch, by the tokens of their documents: tokens and targets of each.
std::multimap<std::vector<int32_t>, std::vector<int32_t>> documentsOf(const DataSet &data, uint64_t seq = 8) {
  std::multimap<std::vector<int32_t>, std::vector<int32_t>> documents;
  for (uint64_t i = 0; i < data.rows(); ++i) {
    const PackedRow row = packedRowOf(data, i, seq);
    for (size_t start = 0, end = 0; start < seq; start = end) {
      while (end < seq && row.starts[end] == int32_t(start))
        ++end;
      if (end == start) {
        ADD_FAILURE() << "row " << i << ": position " << start << " starts at " << row.starts[start];
        return documents;
      }
      std::vector<int32_t> targets(row.targets.begin() + int64_t(start), row.targets.begin() + int64_t(end));
      if (std::ranges::any_of(targets, [](int32_t target) { return target >= 0; }))
        documents.emplace(std::vector<int32_t>(row.tokens.begin() + int64_t(start), row.tokens.begin() + int64_t(end)),
                          targets);
    }
  }
  return documents;
}

std::string openingError(const DataOptions &o) {
  const auto data = DataSet::open(o);
  EXPECT_FALSE(data.isOk());
  return data.status().message();
}

TEST(Packing, EachDocumentStandsInOneRowOnce) {
  std::mt19937 generator(1);
  std::vector<uint64_t> places;
  for (int i = 0; i < 2000; ++i)
    places.push_back(generator() % 100);
  const PackedRows rows = packDocuments(places, 64, /*dropLong=*/false, 3);
  std::vector<uint64_t> seen(places.size());
  uint64_t all = 0;
  for (uint64_t row = 0; row < rows.summary.rows; ++row) {
    uint64_t filled = 0;
    for (const DocumentPiece &piece : rows.row(row)) {
      EXPECT_EQ(piece.first % 64, 0u);
      seen[piece.document] += piece.places;
      filled += piece.places;
    }
    EXPECT_GT(filled, 0u);
    EXPECT_LE(filled, 64u);
    all += filled;
  }
  EXPECT_EQ(seen, places);
  EXPECT_EQ(all, rows.summary.places);
  EXPECT_EQ(rows.summary.documents, places.size());
  EXPECT_EQ(rows.summary.cut, uint64_t(std::ranges::count_if(places, [](uint64_t n) { return n > 64; })));
  EXPECT_EQ(rows.summary.empty, uint64_t(std::ranges::count(places, 0u)));
  EXPECT_LT(rows.summary.paddingShare(64), 0.01) << "best fit fills rows";
  DocumentBounds bounds;
  for (uint64_t row = 0; row < rows.summary.rows; ++row) {
    uint64_t padding = 64, longest = 0;
    for (const DocumentPiece &piece : rows.row(row)) {
      padding -= piece.places;
      longest = std::max(longest, piece.places);
    }
    bounds.most = std::max(bounds.most, rows.row(row).size() + (padding ? 1 : 0));
    bounds.longest = std::max({bounds.longest, longest, padding});
  }
  EXPECT_EQ(rows.bounds, bounds);
}

TEST(Packing, FollowsFromTheSeed) {
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < 100; ++i)
    places.push_back(1 + i % 7);
  const auto order = [&](uint64_t seed) {
    std::vector<uint64_t> documents;
    for (const DocumentPiece &piece : packDocuments(places, 16, false, seed).pieces)
      documents.push_back(piece.document);
    return documents;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Packing, LongDocumentsAreCutOrDropped) {
  const std::vector<uint64_t> places{20, 8, 3};
  const PackedRows cut = packDocuments(places, 8, false, 0), dropped = packDocuments(places, 8, true, 0);
  EXPECT_EQ(cut.summary.rows, 4u); // 8, 8, 8 and 4 + 3
  EXPECT_EQ(cut.summary.cut, 1u);
  EXPECT_EQ(cut.summary.places, 31u);
  EXPECT_EQ(dropped.summary.rows, 2u);
  EXPECT_EQ(dropped.summary.dropped, 1u);
  EXPECT_EQ(dropped.summary.places, 11u);
}

TEST(Packing, PaddingIsADocumentMore) {
  // 5 + 3, and 4 with padding of 4.
  EXPECT_EQ(packDocuments(std::vector<uint64_t>{5, 3, 4}, 8, false, 0).bounds, (DocumentBounds{2, 5}));
  EXPECT_EQ(packDocuments(std::vector<uint64_t>{2}, 8, false, 0).bounds, (DocumentBounds{2, 6}));
  EXPECT_EQ((DocumentBounds{2, 6}.join({3, 1})), (DocumentBounds{3, 6}));
}

TEST(Packing, RowsThatAreNotThereHaveNoLongerDocuments) {
  const Scratch scratch;
  const std::vector<uint16_t> tokens{1, 2, 3, 99, 4, 5, 99, 6, 7, 8, 99};
  const auto data = DataSet::open(packedOptions(scratch.write("a.bin", rawBytes(tokens)), 8, 99));
  ASSERT_OK(data.status());
  ASSERT_EQ((*data)->documentBounds(), (DocumentBounds{3, 3}));
  DataSetRows rows(**data);
  GlobalBatch batch(1, 2, 8);
  ASSERT_OK(batch.fill(rows, 0, /*available=*/1));
  const auto starts = batch.documentStarts(0);
  EXPECT_THAT(std::vector<int32_t>(starts.begin() + 8, starts.end()), testing::ElementsAre(0, 0, 0, 3, 3, 3, 6, 6));
}

TEST(Packing, StreamsAreCutAfterTheirLastToken) {
  const Scratch scratch;
  // 99 ends a document; the last one has no end of its own.
  const std::vector<uint16_t> tokens{1, 2, 99, 3, 4, 5, 6, 99, 99, 7, 8};
  const auto data = DataSet::open(packedOptions(scratch.write("a.bin", rawBytes(tokens)), 8, 99));
  ASSERT_OK(data.status());
  ASSERT_EQ((*data)->rows(), 1u);
  const PackedRow row = packedRowOf(**data, 0);
  EXPECT_EQ(row.tokens[0], 3) << "the longest comes first";
  EXPECT_EQ(row.starts, (std::vector<int32_t>{0, 0, 0, 0, 4, 4, 6, 7}));
  EXPECT_EQ(documentsOf(**data), (std::multimap<std::vector<int32_t>, std::vector<int32_t>>{
                                     {{1, 2}, {2, 99}}, {{3, 4, 5, 6}, {4, 5, 6, 99}}, {{7}, {8}}}));
  const auto &packing = (*data)->packing();
  ASSERT_TRUE(packing);
  EXPECT_EQ(packing->documents, 4u);
  EXPECT_EQ(packing->empty, 1u) << "a document of its end alone";
  EXPECT_EQ(*(*data)->countTargets(0, 2), 14u);
  const auto other = DataSet::open(packedOptions(scratch.path("a.bin"), 8, 4));
  ASSERT_OK(other.status());
  EXPECT_NE((*data)->fingerprint(), (*other)->fingerprint());
}

TEST(Packing, MegatronSaysItself) {
  const Scratch scratch;
  // Three sequences; the first two are one document.
  std::string index("MMIDIDX\0\0", 9);
  index += rawBytes<uint64_t>({1}) + char(8) + rawBytes<uint64_t>({3, 3}) + rawBytes<int32_t>({2, 2, 3});
  index += rawBytes<int64_t>({0, 4, 8});
  scratch.write("m.bin", rawBytes<uint16_t>({1, 2, 3, 4, 5, 6, 7}));
  scratch.write("m.idx", index + rawBytes<int64_t>({0, 2, 3}));
  const auto data = DataSet::open(packedOptions(scratch.path("m.bin")));
  ASSERT_OK(data.status());
  EXPECT_EQ(documentsOf(**data),
            (std::multimap<std::vector<int32_t>, std::vector<int32_t>>{{{1, 2, 3}, {2, 3, 4}}, {{5, 6}, {6, 7}}}));
  scratch.write("m.idx", index);
  EXPECT_THAT(openingError(packedOptions(scratch.path("m.bin"))), HasSubstr("truncated"));
  scratch.write("m.idx", index + rawBytes<int64_t>({0, 2, 2}));
  EXPECT_THAT(openingError(packedOptions(scratch.path("m.bin"))), HasSubstr("corrupted"));
}

/// Rows of another length than the plan's, padded; their documents end with the last label.
TEST(Packing, ChatsEndWithTheirLastLabel) {
  const Scratch scratch;
  const std::vector<int64_t> ids{1, 2, 3, 4, 0, 0, 5, 6, 0, 0, 0, 0, 7, 8, 9, 0, 0, 0},
      labels{-100, -100, 3, 4, -100, -100, -100, 6, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100};
  const std::string header =
      layoutSafetensors({{"input_ids", plan::I64, {3, 6}}, {"labels", plan::I64, {3, 6}}}).header;
  const auto data =
      DataSet::open(packedOptions(scratch.write("c.safetensors", header + rawBytes(ids) + rawBytes(labels))));
  ASSERT_OK(data.status());
  EXPECT_EQ(documentsOf(**data), (std::multimap<std::vector<int32_t>, std::vector<int32_t>>{
                                     {{1, 2, 3}, {kIgnoredTarget, 3, 4}}, {{5}, {6}}}));
  EXPECT_EQ((*data)->packing()->empty, 1u) << "nothing counts in the third";
  EXPECT_EQ((*data)->packing()->places, 4u);
}

TEST(Packing, WithoutBoundariesThereIsNone) {
  const Scratch scratch;
  const std::string file = scratch.write("a.bin", rawBytes<uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_THAT(openingError(packedOptions(file)), HasSubstr("--document-end=ID"));
  EXPECT_THAT(openingError(packedOptions(file, 8, 77)), HasSubstr("no such token"));
  DataOptions text = packedOptions(scratch.write("a.txt", "one\ntwo\n"));
  text.bytesTokenizer = true;
  EXPECT_THAT(openingError(text), HasSubstr("--document-end=ID"));
  text.documentEnd = '\n';
  const auto lines = DataSet::open(text);
  ASSERT_OK(lines.status());
  EXPECT_EQ((*lines)->packing()->documents, 2u);
}

TEST(Packing, RowsOfOneDocumentStartAtZero) {
  const Scratch scratch;
  DataOptions o = packedOptions(scratch.write("a.bin", rawBytes<uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})));
  o.pack = false;
  const auto data = DataSet::open(o);
  ASSERT_OK(data.status());
  EXPECT_EQ(packedRowOf(**data, 0).starts, std::vector<int32_t>(8, 0));
  EXPECT_FALSE((*data)->packing());
}

} // namespace
