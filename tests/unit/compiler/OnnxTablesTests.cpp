// Parameters that reach data as tables or constants: positions of their own name, rows and spread vectors that the
// exporter folded; sizes that it fixed.
#include "OnnxHarness.h"
#include "runtime/Format/Safetensors.h"
#include "gmock/gmock.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
using testing::Contains;
using testing::HasSubstr;

namespace ztc::test::tables {
namespace {

constexpr int64_t V = 7, H = 4, B = 2, S = 3, P = 6;

/// Values without a pattern.
std::vector<float> values(int64_t count, unsigned seed) {
  std::vector<float> result;
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    result.push_back(float(int32_t(state >> 33)) / float(1 << 30) - 1.0f);
  }
  return result;
}

struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::string safetensors(const std::vector<Stored> &tensors) {
  std::vector<SafetensorsSpec> specs;
  for (const Stored &tensor : tensors)
    specs.push_back({tensor.name, plan::F32, tensor.shape});
  SafetensorsLayout layout = layoutSafetensors(specs);
  std::string bytes = layout.header;
  bytes.resize(layout.fileBytes);
  for (size_t i = 0; i < tensors.size(); ++i)
    std::memcpy(bytes.data() + layout.offsets[i], tensors[i].values.data(), 4 * tensors[i].values.size());
  return bytes;
}

const std::vector<float> table = values(V * H, 1), head = values(V * H, 2), positions = values(P * H, 3);

/// Tokens of a fixed size look up rows x.
OnnxWriter fixedLookup() {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {B, S});
  writer.output("logits", ElementType::F32, {B, S, V});
  writer.floats("embed.weight", {V, H}, table);
  writer.floats("head.weight", {H, V}, head);
  writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
  return writer;
}

class Tables : public testing::Test {
protected:
  void SetUp() override { setenv("ZTC_CACHE", (folder.path / "cache").c_str(), 1); }

  Imported importWriter(const OnnxWriter &writer, const std::vector<Stored> &checkpoint = {}, uint64_t batch = B) {
    ImportOptions options;
    options.batch = batch;
    options.seq = S;
    if (!checkpoint.empty())
      options.weights = folder.write("model.safetensors", safetensors(checkpoint));
    return import(folder.write("model.onnx", writer.bytes()), options);
  }

  static std::vector<Stored> checkpointWith(Stored more) {
    return {{"embed.weight", {V, H}, table}, {"head.weight", {H, V}, head}, std::move(more)};
  }

  TemporaryFolder folder;
};

/// Rows 2 to 4 of the positions, once for each row of the batch.
OnnxWriter withFoldedRows(const std::string &name) {
  OnnxWriter writer = fixedLookup();
  std::vector<float> rows(positions.begin() + 2 * H, positions.begin() + (2 + S) * H), all = rows;
  all.insert(all.end(), rows.begin(), rows.end());
  writer.floats(name, {B, S, H}, all);
  writer.node("Add", {"x", name}, {"y"});
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
  return writer;
}

TEST_F(Tables, RowsThatWereFoldedForAWholeBatchAreTrained) {
  OnnxWriter writer = withFoldedRows("embedding_1");
  Imported own = importWriter(writer);
  EXPECT_THAT(own.errors, HasSubstr("rows of a learned table were folded into the constant 'embedding_1'"));
  Imported imported = importWriter(writer, checkpointWith({"positions.weight", {P, H}, positions}));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_GE(imported.argument("positions.weight"), 0);
  EXPECT_THAT(imported.report.notes, Contains(HasSubstr("rows 2 to 4 of positions.weight, by value")));
  // The same numbers as those of a graph that never had the table.
  Imported constant = importWriter(withFoldedRows("made"));
  ASSERT_TRUE(constant.module) << constant.errors;
  const std::vector<int64_t> tokens{1, 5, 0, 6, 2, 2};
  auto wanted = forwardLogits(constant, tokens), found = forwardLogits(imported, tokens);
  ASSERT_TRUE(wanted && found);
  for (int64_t i = 0; i < B * S * V; ++i)
    EXPECT_EQ(found->reals[i], wanted->reals[i]);
}

/// The exporter called them nothing: what is added to the tokens' rows are positions.
TEST_F(Tables, RowsWithoutANameAreAnErrorToo) {
  for (const char *name : {"onnx::Add_300", "val_12"}) {
    EXPECT_THAT(importWriter(withFoldedRows(name)).errors, HasSubstr("Give the checkpoint with --weights, or export"));
    Imported imported = importWriter(withFoldedRows(name), checkpointWith({"positions.weight", {P, H}, positions}));
    EXPECT_GE(imported.argument("positions.weight"), 0) << imported.errors;
  }
}

TEST_F(Tables, RowsOfOtherValuesAreAnError) {
  Imported imported =
      importWriter(withFoldedRows("embedding_1"), checkpointWith({"positions.weight", {P, H}, values(P * H, 9)}));
  EXPECT_THAT(imported.errors, HasSubstr("no table of"));
  EXPECT_EQ(imported.errorCount, 1u);
}

/// A parameter of one number per token of the sequence's head, spread over batch and width, stands beside data.
TEST_F(Tables, VectorThatWasSpreadIsTrained) {
  const std::vector<float> sinks = values(S, 5);
  OnnxWriter writer = fixedLookup();
  std::vector<float> spread;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t s = 0; s < S; ++s)
      spread.push_back(sinks[s]);
  writer.floats("expand_4", {B, S, 1}, spread);
  writer.floats("wide.weight", {H + 1, V}, values((H + 1) * V, 6));
  writer.node("Concat", {"x", "expand_4"}, {"y"}, {{"axis", int64_t(-1)}});
  writer.node("MatMul", {"y", "wide.weight"}, {"logits"});
  std::vector<Stored> checkpoint{{"embed.weight", {V, H}, table},
                                 {"wide.weight", {H + 1, V}, values((H + 1) * V, 6)},
                                 {"attention.sinks", {S}, sinks}};
  Imported imported = importWriter(writer, checkpoint);
  ASSERT_TRUE(imported.module) << imported.errors;
  int argument = imported.argument("attention.sinks");
  ASSERT_GE(argument, 0);
  std::optional<Tensor> loaded = loadParameter(imported.forward(), argument);
  ASSERT_TRUE(loaded);
  for (int64_t s = 0; s < S; ++s)
    EXPECT_EQ(loaded->reals[s], sinks[s]);
  // A constant of the graph that no tensor holds stays one.
  checkpoint.back().values = values(S, 8);
  Imported other = importWriter(writer, checkpoint);
  ASSERT_TRUE(other.module) << other.errors;
  EXPECT_EQ(other.argument("attention.sinks"), -1);
}

/// What minGPT has: `self.pos_emb`, (1, P, H), of which the first S rows are added.
OnnxWriter withOwnTable(const std::vector<float> &elements) {
  OnnxWriter writer = fixedLookup();
  writer.floats("pos_emb", {1, P, H}, elements);
  writer.integers("start", {1}, {0});
  writer.integers("end", {1}, {S});
  writer.integers("axis", {1}, {1});
  writer.node("Slice", {"pos_emb", "start", "end", "axis"}, {"rows"});
  writer.node("Add", {"x", "rows"}, {"y"});
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
  return writer;
}

TEST_F(Tables, PositionsOfTheirOwnNameAreTrained) {
  EXPECT_GE(importWriter(withOwnTable(positions)).argument("pos_emb"), 0);
  EXPECT_GE(importWriter(withOwnTable(std::vector<float>(P * H, 0))).argument("pos_emb"), 0) << "fresh ones";
}

TEST_F(Tables, SinesAndCosinesAreNot) {
  std::vector<float> neighbours, halves(P * H);
  for (int64_t p = 0; p < P; ++p)
    for (int64_t i = 0; i < H / 2; ++i) {
      float angle = float(p + 2) / std::pow(100.f, float(2 * i) / H);
      neighbours.insert(neighbours.end(), {std::sin(angle), std::cos(angle)});
      halves[p * H + i] = std::sin(angle);
      halves[p * H + H / 2 + i] = std::cos(angle);
    }
  for (const std::vector<float> &angles : {neighbours, halves}) {
    Imported imported = importWriter(withOwnTable(angles));
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(imported.argument("pos_emb"), -1);
  }
}

/// OPT counts a mask of past and present tokens, and looks the count up.
TEST_F(Tables, MaskThatIsCountedIsNoPosition) {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.input("given", ElementType::I64, {"b", "total"});
  writer.output("logits", ElementType::F32, {"b", "s", V});
  writer.floats("embed.weight", {V, H}, table);
  writer.floats("positions.weight", {P, H}, positions);
  writer.floats("head.weight", {H, V}, head);
  writer.integers("one", {}, {1});
  writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
  writer.node("CumSum", {"given", "one"}, {"count"});
  writer.node("Mul", {"count", "given"}, {"counted"});
  writer.node("Sub", {"counted", "one"}, {"places"});
  writer.node("Gather", {"positions.weight", "places"}, {"rows"});
  writer.node("Add", {"x", "rows"}, {"y"});
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
  Imported imported = importWriter(writer);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.inputs[1].role, "attention_mask");
}

/// The input says any batch, the graph 1: what an example of one row gives.
TEST_F(Tables, BatchThatTheExporterFixedIsSaid) {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.output("logits", ElementType::F32, {int64_t(1), "s", V});
  writer.floats("embed.weight", {V, H}, table);
  writer.floats("head.weight", {H, V}, head);
  writer.integers("one", {3}, {1, -1, H});
  writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
  writer.node("Reshape", {"x", "one"}, {"y"});
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
  EXPECT_THAT(importWriter(writer).errors, HasSubstr("the exporter fixed the batch at 1, as output 'logits' says"));
  Imported imported = importWriter(writer, {}, /*batch=*/0); // as the graph wants it
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.batch, 1u);
}

/// Positions from `first` on as rows of a table, looked up or cut off; x are the rows of the tokens.
OnnxWriter withPositions(bool isSliced, int64_t first = 0) {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.output("logits", ElementType::F32, {"b", "s", V});
  writer.floats("embed.weight", {V, H}, table);
  writer.floats("head.weight", {H, V}, head);
  writer.floats("positions.weight", {P, H}, positions);
  writer.integers("first", {}, {first});
  writer.integers("firsts", {1}, {first});
  writer.integers("zero", {1}, {0});
  writer.integers("one", {}, {1});
  writer.node("Shape", {"input_ids"}, {"length"}, {{"start", int64_t(1)}});
  writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
  if (isSliced) {
    writer.node("Add", {"length", "firsts"}, {"end"});
    writer.node("Slice", {"positions.weight", "firsts", "end", "zero"}, {"rows"});
  } else {
    writer.node("Squeeze", {"length"}, {"count"});
    writer.node("Add", {"count", "first"}, {"end"});
    writer.node("Range", {"first", "end", "one"}, {"places"});
    writer.node("Gather", {"positions.weight", "places"}, {"rows"});
  }
  writer.node("Add", {"x", "rows"}, {"y"});
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
  return writer;
}

TEST_F(Tables, ATableSaysHowLongASequenceIs) {
  for (bool isSliced : {false, true})
    for (int64_t first : {0, 2}) {
      const std::string path = folder.write("model.onnx", withPositions(isSliced, first).bytes());
      ImportOptions options;
      Imported imported = import(path, options); // without a sequence: as long as the table is
      ASSERT_TRUE(imported.module) << imported.errors;
      EXPECT_EQ(imported.report.seq, uint64_t(P - first));
      EXPECT_EQ(imported.report.positionLimit, P - first);
      options.seq = 2;
      Imported shorter = import(path, options);
      ASSERT_TRUE(shorter.module) << shorter.errors;
      EXPECT_EQ(shorter.report.seq, 2u);
      EXPECT_EQ(shorter.report.positionLimit, P - first);
      for (uint64_t length : {uint64_t(P - first + 1), uint64_t(4000), uint64_t(1) << 31}) {
        options.seq = length;
        Imported longer = import(path, options);
        EXPECT_EQ(longer.errorCount, 1u) << longer.errors;
        EXPECT_THAT(longer.errors, HasSubstr("--seq=" + std::to_string(P - first) + " at most, not " +
                                             std::to_string(length) + ": the table 'positions.weight' has 6 rows"));
      }
    }
}

/// Rows that data choose limit nothing, and nor does a table that is read as a whole.
TEST_F(Tables, OtherTablesDoNotSayIt) {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.output("logits", ElementType::F32, {"b", "s", V});
  writer.floats("embed.weight", {V, H}, table);
  writer.floats("head.weight", {H, V}, head);
  writer.floats("scales.weight", {P, H}, positions);
  writer.integers("zero", {1}, {0});
  writer.integers("far", {1}, {std::numeric_limits<int64_t>::max()});
  writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
  writer.node("Slice", {"scales.weight", "zero", "far", "zero"}, {"all"});
  writer.node("ReduceMean", {"all"}, {"mean"}, {{"keepdims", int64_t(0)}});
  writer.node("Mul", {"x", "mean"}, {"y"});
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
  Imported imported = import(folder.write("model.onnx", writer.bytes()), {});
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.seq, 2048u);
  EXPECT_EQ(imported.report.positionLimit, 0);
}

} // namespace
} // namespace ztc::test::tables
