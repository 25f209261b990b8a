// Rows that a mask picks: a sum over them becomes one over all rows, and what does not compute row by row is refused,
// by name.
#include "OnnxHarness.h"
#include <algorithm>

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;

namespace {

/// x (6, 4), the rows of six tokens, and the rows `tokens` of which `chosen`, the place of each row's largest element,
/// is 2.
OnnxWriter pickedModel() {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"batch", "sequence"});
  std::vector<float> table;
  for (int64_t i = 0; i < 28; ++i)
    table.push_back(float(i * i * 5 % 11) - 4.f);
  writer.floats("model.embed_tokens.weight", {7, 4}, table);
  writer.floats("head", {4, 7}, std::vector<float>(28, 0.25f));
  writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"embedded"}, {}, "model.embed_tokens");
  writer.integers("rows", {2}, {-1, 4});
  writer.integers("two", {}, {2});
  writer.integers("last", {1}, {-1});
  writer.node("Reshape", {"embedded", "rows"}, {"x"});
  writer.node("ArgMax", {"x"}, {"chosen"}, {{"axis", int64_t(-1)}, {"keepdims", int64_t(0)}});
  writer.node("Equal", {"chosen", "two"}, {"mask"});
  writer.node("NonZero", {"mask"}, {"places"}, {}, "", "pick");
  writer.node("Transpose", {"places"}, {"tokens"}, {{"perm", std::vector<int64_t>{1, 0}}});
  writer.node("GatherND", {"x", "tokens"}, {"picked"});
  return writer;
}

/// logits = `sum` head.
std::string finishedRows(OnnxWriter &writer, const std::string &sum) {
  writer.integers("shape", {3}, {2, 3, 4});
  writer.node("Reshape", {sum, "shape"}, {"summed"});
  writer.node("MatMul", {"summed", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"batch", "sequence", int64_t(7)});
  return writer.bytes();
}

ImportOptions sizesOfRows() {
  ImportOptions options;
  options.batch = 2;
  options.seq = 3;
  return options;
}

void refusedRows(const std::string &bytes, const std::string &text) {
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", bytes), sizesOfRows());
  EXPECT_FALSE(imported.module);
  EXPECT_EQ(imported.errorCount, 1u) << imported.errors;
  EXPECT_NE(imported.errors.find(text), std::string::npos) << "'" << text << "' is not in: " << imported.errors;
}

/// Each logit is a quarter of the sum of the token's row, times `factor` where the row is picked.
void expectRows(const Tensor &logits, double factor) {
  for (int64_t token = 0; token < 6; ++token) {
    std::vector<double> row;
    for (int64_t place = 4 * token; place < 4 * token + 4; ++place)
      row.push_back(double(place * place * 5 % 11) - 4);
    const bool isPicked = std::max_element(row.begin(), row.end()) - row.begin() == 2;
    const double sum = row[0] + row[1] + row[2] + row[3];
    EXPECT_DOUBLE_EQ(logits.reals[token * 7], 0.25 * sum * (isPicked ? factor : 1)) << token;
  }
}

} // namespace

TEST(OnnxPickedRows, AreAddedWhereTheyWerePicked) {
  OnnxWriter writer = pickedModel();
  writer.node("Add", {"picked", "picked"}, {"twice"});
  writer.node("ScatterND", {"x", "tokens", "twice"}, {"y"}, {{"reduction", std::string("add")}});
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", finishedRows(writer, "y")), sizesOfRows());
  ASSERT_TRUE(imported.module) << imported.errors;
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  expectRows(*logits, 3);
}

TEST(OnnxPickedRows, TakeThePlaceOfOthers) {
  OnnxWriter writer = pickedModel();
  writer.node("Neg", {"picked"}, {"negative"});
  writer.node("ScatterND", {"x", "tokens", "negative"}, {"y"});
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", finishedRows(writer, "y")), sizesOfRows());
  ASSERT_TRUE(imported.module) << imported.errors;
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  expectRows(*logits, -1);
}

TEST(OnnxPickedRows, AmongOnesTakeTheirPlaceToo) {
  OnnxWriter writer = pickedModel();
  writer.integers("sizes", {2}, {6, 4});
  writer.node("Expand", {"negative_one", "sizes"}, {"ones"});
  writer.floats("negative_one", {}, {-1.f});
  writer.node("ScatterND", {"ones", "tokens", "picked"}, {"y"});
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", finishedRows(writer, "y")), sizesOfRows());
  ASSERT_TRUE(imported.module) << imported.errors;
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  EXPECT_DOUBLE_EQ(logits->reals[0], -0.25); // of its row, which is picked
  EXPECT_DOUBLE_EQ(logits->reals[7], -1);
}

/// Of two choices of a row each is compared with another number: a row may be picked twice.
TEST(OnnxPickedRows, ThatAListOfNumbersPicksAreRefused) {
  OnnxWriter writer = pickedModel();
  writer.integers("k", {1}, {2});
  writer.integers("numbers", {2}, {2, 1});
  writer.node("TopK", {"x", "k"}, {"best", "best_places"});
  writer.node("Equal", {"best_places", "numbers"}, {"pairs"});
  writer.node("NonZero", {"pairs"}, {"pair_places"});
  writer.node("Transpose", {"pair_places"}, {"pair"}, {{"perm", std::vector<int64_t>{1, 0}}});
  writer.node("GatherND", {"best", "pair"}, {"shares"});
  writer.node("ReduceSum", {"shares"}, {"total"}, {{"keepdims", int64_t(0)}}, "", "total");
  writer.node("Mul", {"x", "total"}, {"y"});
  refusedRows(finishedRows(writer, "y"), "node 'total' (ReduceSum) does not compute each by itself");
}

TEST(OnnxPickedRows, OfWhichTheFirstIsTakenAreRefused) {
  OnnxWriter writer = pickedModel();
  writer.integers("first", {}, {0});
  writer.node("Gather", {"tokens", "first"}, {"place"}, {{"axis", int64_t(0)}}, "", "front");
  writer.node("Gather", {"x", "place"}, {"row"});
  writer.node("Add", {"x", "row"}, {"y"});
  refusedRows(finishedRows(writer, "y"), "node 'front' (Gather) computes with the places of the rows that node 'pick'");
}

TEST(OnnxPickedRows, OfWhichTheMeanIsTakenAreRefused) {
  OnnxWriter writer = pickedModel();
  writer.integers("first", {1}, {0});
  writer.node("ReduceMean", {"picked", "first"}, {"mean"}, {{"keepdims", int64_t(1)}}, "", "center");
  writer.node("Sub", {"picked", "mean"}, {"centered"});
  writer.node("ScatterND", {"x", "tokens", "centered"}, {"y"}, {{"reduction", std::string("add")}});
  refusedRows(finishedRows(writer, "y"),
              "node 'center' (ReduceMean) does not compute each by itself of the rows that node "
              "'pick' picks");
}

TEST(OnnxPickedRows, WhoseNumberIsAFactorAreRefused) {
  OnnxWriter writer = pickedModel();
  writer.node("Size", {"picked"}, {"count"});
  writer.node("Cast", {"count"}, {"real"}, {{"to", int64_t(1)}}, "", "load");
  writer.node("Mul", {"picked", "real"}, {"scaled"});
  writer.node("ScatterND", {"x", "tokens", "scaled"}, {"y"}, {{"reduction", std::string("add")}});
  refusedRows(finishedRows(writer, "y"),
              "node 'load' (Cast) computes with the number of the rows that node 'pick' picks");
}

TEST(OnnxPickedRows, BesideThoseOfAnotherMaskAreRefused) {
  OnnxWriter writer = pickedModel();
  writer.integers("one", {}, {1});
  writer.node("Equal", {"chosen", "one"}, {"other"});
  writer.node("NonZero", {"other"}, {"there"});
  writer.node("Transpose", {"there"}, {"others"}, {{"perm", std::vector<int64_t>{1, 0}}});
  writer.node("GatherND", {"x", "others"}, {"more"});
  writer.node("Mul", {"picked", "more"}, {"both"}, {}, "", "mixed");
  writer.node("ScatterND", {"x", "tokens", "both"}, {"y"}, {{"reduction", std::string("add")}});
  refusedRows(finishedRows(writer, "y"), "node 'mixed' (Mul) combines those of another mask with data");
}
