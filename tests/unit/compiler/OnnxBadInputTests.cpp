// What is wrong with a model is said in one message; nothing crashes, whatever the bytes.
#include "OnnxHarness.h"
#include <fstream>
#include <random>
#include <sstream>

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
namespace fs = std::filesystem;

namespace {

fs::path golden(const std::string &name) {
  return fs::path(__FILE__).parent_path().parent_path().parent_path() / "golden" / name;
}

std::string readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void refused(const std::string &path, const std::vector<std::string> &needs, const ImportOptions &options = {}) {
  Imported imported = test::import(path, options);
  EXPECT_FALSE(imported.module);
  EXPECT_EQ(imported.errorCount, 1u) << imported.errors;
  for (const std::string &text : needs)
    EXPECT_NE(imported.errors.find(text), std::string::npos) << "'" << text << "' is not in: " << imported.errors;
}

/// logits = table[input_ids] * table^T, through `middle` ops on the way.
OnnxWriter smallModel() {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"batch", "sequence"});
  writer.floats("model.embed_tokens.weight", {7, 4}, std::vector<float>(28, 0.5f));
  writer.floats("head", {4, 7}, std::vector<float>(28, 0.25f));
  writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "model.embed_tokens");
  writer.output("logits", ElementType::F32, {"batch", "sequence", int64_t(7)});
  return writer;
}

TEST(OnnxBadInput, SmallModelIsGood) {
  OnnxWriter writer = smallModel();
  writer.node("MatMul", {"x", "head"}, {"logits"}, {}, "lm_head");
  TemporaryFolder folder;
  ImportOptions options;
  options.batch = 2;
  options.seq = 3;
  Imported imported = test::import(folder.write("model.onnx", writer.bytes()), options);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_GE(imported.argument("lm_head.weight"), 0);
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  EXPECT_DOUBLE_EQ(logits->reals[0], 0.5);
}

TEST(OnnxBadInput, NotAModel) {
  TemporaryFolder folder;
  refused((folder.path / "nothing.onnx").string(), {"nothing.onnx"});
  refused(folder.write("text.onnx", "this is a text file, not a model\n"), {"text.onnx", "is not an ONNX model"});
  refused(folder.write("empty.onnx", ""), {"empty.onnx", "is not an ONNX model"});
  std::string whole = readFile(golden("grouped") / "model.onnx");
  for (size_t size : {whole.size() / 2, whole.size() - 1, size_t(100)})
    refused(folder.write("part.onnx", whole.substr(0, size)), {"part.onnx", "truncated"});
}

TEST(OnnxBadInput, UnsupportedOpsAreListedAtOnce) {
  OnnxWriter writer = smallModel();
  writer.node("Frobnicate", {"x"}, {"a"}, {}, "", "first");
  writer.node("Frobnicate", {"a"}, {"b"}, {}, "", "second");
  writer.node("NonZero", {"b"}, {"c"}, {}, "", "third");
  writer.node("MatMul", {"c", "head"}, {"logits"});
  TemporaryFolder folder;
  refused(folder.write("model.onnx", writer.bytes()), {"Frobnicate at first, second", "NonZero at third"});
}

TEST(OnnxBadInput, GraphThatMakesNoSense) {
  TemporaryFolder folder;
  OnnxWriter undefined = smallModel();
  undefined.node("MatMul", {"nobody", "head"}, {"logits"}, {}, "", "product");
  refused(folder.write("a.onnx", undefined.bytes()), {"product", "nobody"});
  OnnxWriter missing = smallModel();
  refused(folder.write("b.onnx", missing.bytes()), {"logits", "computed by no node"});
  OnnxWriter wrong = smallModel();
  wrong.floats("narrow", {3, 7}, std::vector<float>(21));
  wrong.node("MatMul", {"x", "narrow"}, {"logits"}, {}, "", "product");
  refused(folder.write("c.onnx", wrong.bytes()), {"product", "contraction sizes 4 and 3"});
  OnnxWriter embeddings = smallModel();
  embeddings.input("inputs_embeds", ElementType::F32, {"batch", "sequence", int64_t(4)});
  embeddings.node("MatMul", {"inputs_embeds", "head"}, {"logits"});
  refused(folder.write("d.onnx", embeddings.bytes()), {"inputs_embeds"});
  OnnxWriter scalar = smallModel();
  scalar.node("ReduceMean", {"x"}, {"logits"});
  refused(folder.write("e.onnx", scalar.bytes()), {"logits", "(batch, sequence, vocabulary)"});
}

TEST(OnnxBadInput, SizesThatDoNotFit) {
  ImportOptions options;
  options.seq = 4096;
  refused(golden("grouped") / "model.onnx", {"4096", "64", "position limit"}, options);
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {int64_t(2), int64_t(8)});
  writer.floats("model.embed_tokens.weight", {7, 4}, std::vector<float>(28));
  writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"logits"});
  writer.output("logits", ElementType::F32, {int64_t(2), int64_t(8), int64_t(4)});
  TemporaryFolder folder;
  options.seq = 16;
  refused(folder.write("model.onnx", writer.bytes()), {"sequence 8, not 16"}, options);
}

TEST(OnnxBadInput, ExternalData) {
  TemporaryFolder folder;
  fs::copy(golden("tied") / "model.onnx", folder.path / "model.onnx");
  refused((folder.path / "model.onnx").string(), {"model.onnx.data", "--weights"});
  std::string data = readFile(golden("tied") / "model.onnx.data");
  folder.write("model.onnx.data", data.substr(0, data.size() / 2));
  refused((folder.path / "model.onnx").string(), {"truncated", "model.onnx.data"});

  OnnxWriter outside;
  outside.input("input_ids", ElementType::I64, {"batch", "sequence"});
  outside.external("model.embed_tokens.weight", {7, 4}, "../elsewhere.bin", 0);
  outside.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"logits"});
  outside.output("logits", ElementType::F32, {});
  refused(folder.write("outside.onnx", outside.bytes()), {"../elsewhere.bin"});
}

TEST(OnnxBadInput, WeightsThatDoNotFit) {
  TemporaryFolder folder;
  // One tensor of another shape and nothing else: a file that is valid in itself.
  std::string header = R"({"model.norm.weight":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  file[0] = char(header.size());
  ImportOptions options;
  options.weights = folder.write("weights.safetensors", file + header + std::string(12, '\0'));
  refused(golden("grouped") / "model.onnx",
          {"model.norm.weight has shape (3)", "model.layers.1.mlp.up_proj.weight", "is missing", "lm_head.weight"},
          options);
  options.weights = folder.write("cut.safetensors", file.substr(0, 4));
  refused(golden("grouped") / "model.onnx", {"cut.safetensors"}, options);
}

/// Damaged files: refused or imported, never a crash.
TEST(OnnxBadInput, DamagedBytes) {
  std::string whole = readFile(golden("grouped") / "model.onnx");
  TemporaryFolder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 3; ++i)
      damaged[random() % damaged.size()] = char(random());
    ImportOptions options;
    options.batch = 1;
    options.seq = 8;
    Imported imported = test::import(folder.write("damaged.onnx", damaged), options);
    EXPECT_TRUE(imported.module || imported.errorCount > 0) << "round " << round;
  }
}

} // namespace
