// Real exporter outputs: the repository's goldens always, the larger set where ZTC_FIXTURES names its folder.
#include "OnnxHarness.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "nlohmann/json.hpp"
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;
namespace fs = std::filesystem;

namespace {

fs::path goldenFolder() {
  return fs::path(__FILE__).parent_path().parent_path().parent_path() / "golden";
}

/// Imports at the golden batch's size and compares the logits of the interpreter in f32.
void checkLogits(const fs::path &model, const fs::path &golden, const std::string &weights, double tolerance) {
  MLIRContext context;
  std::optional<Tensor> tokens = readTensor(golden, "input_ids", context),
                        logits = readTensor(golden, "logits", context);
  ASSERT_TRUE(tokens && logits) << golden;
  ImportOptions options;
  options.batch = uint64_t(tokens->shape[0]);
  options.seq = uint64_t(tokens->shape[1]);
  options.weights = weights;
  Imported imported = test::import(model, options);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.count("graph.transpose"), 0u);
  EXPECT_FALSE(imported.report.weights.empty());
  EXPECT_EQ(imported.report.masks, std::vector<std::string>{"causal"});
  std::optional<Tensor> computed = forwardLogits(imported, tokens->integers);
  ASSERT_TRUE(computed);
  double worst = 0;
  for (int64_t i = 0; i < logits->count(); ++i) // some goldens hold the first rows of the batch only
    worst = std::max(worst, std::abs(computed->reals[i] - logits->reals[i]));
  EXPECT_LT(worst, tolerance) << model;
}

struct Fixture {
  fs::path folder;
  bool isThere() const { return !folder.empty() && fs::exists(folder); }
  explicit Fixture(const std::string &name) {
    if (const char *root = std::getenv("ZTC_FIXTURES"))
      folder = fs::path(root) / name;
  }
};

#define NEEDS(fixture)                                                                                                 \
  if (!fixture.isThere())                                                                                              \
  GTEST_SKIP() << "ZTC_FIXTURES is not set"

/// The mean over counted positions of -log softmax(logits)[label at the next position], for the first batch.
double lossOf(const Tensor &logits, const Tensor &labels) {
  int64_t batch = logits.shape[0], sequence = logits.shape[1], vocabulary = logits.shape[2], counted = 0;
  double sum = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s + 1 < sequence; ++s) {
      int64_t label = labels.integers[b * sequence + s + 1];
      if (label < 0)
        continue;
      const double *row = &logits.reals[(b * sequence + s) * vocabulary];
      double total = 0;
      for (int64_t v = 0; v < vocabulary; ++v)
        total += std::exp(row[v]);
      sum += std::log(total) - row[label];
      ++counted;
    }
  return sum / double(counted);
}

TEST(OnnxFixtures, LossOfTheRepositorysModels) {
  for (const char *name : {"grouped", "head-norms", "tied"}) {
    fs::path folder = goldenFolder() / name;
    std::ifstream text(folder / "golden.json");
    auto golden = nlohmann::json::parse(text);
    MLIRContext context;
    std::optional<Tensor> tokens = readTensor(folder / "data.safetensors", "input_ids", context),
                          labels = readTensor(folder / "data.safetensors", "labels", context);
    ASSERT_TRUE(tokens && labels);
    ImportOptions options;
    options.batch = golden["batch"];
    options.seq = golden["seq"];
    Imported imported = test::import(folder / "model.onnx", options);
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(imported.count("graph.transpose"), 0u);
    tokens->integers.resize(options.batch * options.seq);
    std::optional<Tensor> logits = forwardLogits(imported, tokens->integers);
    ASSERT_TRUE(logits);
    EXPECT_NEAR(lossOf(*logits, *labels), golden["losses"][0].get<double>(), 1e-5) << name;
  }
}

TEST(OnnxFixtures, WeightsOfTheOnnxFile) {
  for (const char *name : {"llama-tiny", "llama-tiny-tied", "qwen3-tiny", "gpt2-tiny"}) {
    Fixture fixture(name);
    NEEDS(fixture);
    checkLogits(fixture.folder / "dynamo-op18.onnx", fixture.folder / "golden.safetensors", "", 1e-5);
  }
}

TEST(OnnxFixtures, WeightsOfTheCheckpoint) {
  for (const char *name : {"llama-tiny", "llama-tiny-tied", "qwen3-tiny", "gpt2-tiny"}) {
    Fixture fixture(name);
    NEEDS(fixture);
    checkLogits(fixture.folder / "dynamo-op18.onnx", fixture.folder / "golden.safetensors",
                fixture.folder / "model.safetensors", 1e-5);
  }
}

/// Every exporter and option that the fixtures have, with the file's weights and with the checkpoint's: one graph comes
/// out.
TEST(OnnxFixtures, Variants) {
  Fixture fixture("llama-tiny");
  NEEDS(fixture);
  Imported plain = test::import(fixture.folder / "dynamo-op18.onnx");
  for (const char *name :
       {"dynamo-op18-static", "dynamo-op18-noopt", "dynamo-op18-eager", "dynamo-op18-mask", "dynamo-op23",
        "dynamo-op23-mask", "dynamo-op24", "torchscript-op17", "torchscript-op17-mask", "torchscript-op17-nofold",
        "torchscript-op17-static", "optimum", "optimum-with-past"}) {
    SCOPED_TRACE(name);
    fs::path model = fixture.folder / (std::string(name) + ".onnx");
    checkLogits(model, fixture.folder / "golden.safetensors", "", 1e-5);
    checkLogits(model, fixture.folder / "golden.safetensors", fixture.folder / "model.safetensors", 1e-5);
    EXPECT_EQ(test::import(model).report.graphOps, plain.report.graphOps);
  }
}

TEST(OnnxFixtures, MergedNormsPartAgain) {
  Fixture fixture("llama-tiny");
  NEEDS(fixture);
  for (const char *name : {"dynamo-op18-freshnorm", "torchscript-op17-freshnorm"}) {
    Imported imported = test::import(fixture.folder / (std::string(name) + ".onnx"));
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(imported.report.weights.size(), 21u) << name;
    for (const char *norm : {"model.layers.0.input_layernorm.weight", "model.layers.1.post_attention_layernorm.weight",
                             "model.norm.weight"})
      EXPECT_GE(imported.argument(norm), 0) << name << ": " << norm;
  }
}

TEST(OnnxFixtures, BrokenTieIsRestored) {
  Fixture fixture("llama-tiny-tied");
  NEEDS(fixture);
  checkLogits(fixture.folder / "torchscript-op17.onnx", fixture.folder / "golden.safetensors", "", 1e-5);
  Imported imported = test::import(fixture.folder / "torchscript-op17.onnx");
  EXPECT_EQ(imported.argument("lm_head.weight"), -1);
  EXPECT_EQ(imported.report.weights[0].tied, std::vector<std::string>{"lm_head.weight"});
}

TEST(OnnxFixtures, Idioms) {
  Fixture fixture("llama-mini");
  NEEDS(fixture);
  Imported imported = test::import(fixture.folder / "dynamo-op18.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.idioms,
            (std::map<std::string, unsigned>{{"attention", 4}, {"rms_norm", 9}, {"rope", 8}, {"swiglu", 4}}));
  EXPECT_EQ(imported.count("graph.transpose"), 0u);
  EXPECT_EQ(imported.count("graph.broadcast"), 0u);
}

/// Every parameter of the model has its name, orientation and source, once.
TEST(OnnxFixtures, GraphOnlyModels) {
  for (auto [name, parameters, layers] : {std::tuple{"llama-3.2-1b", 146, 16}, {"llama-3-8b", 291, 32}}) {
    Fixture fixture(name);
    NEEDS(fixture);
    auto start = std::chrono::steady_clock::now();
    Imported imported = test::import(fixture.folder / "dynamo-op18.onnx");
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(int(imported.report.weights.size()), parameters);
    EXPECT_EQ(imported.report.layers, layers);
    EXPECT_EQ(imported.count("graph.transpose"), 0u);
    EXPECT_EQ(int(imported.count("graph.attention")), layers);
    EXPECT_GE(imported.argument("model.layers.3.self_attn.q_proj.weight"), 0);
    func::FuncOp forward = imported.forward();
    EXPECT_FALSE(forward.getArgAttr(1, graph::kSource)); // no weights anywhere
  }
}

TEST(OnnxFixtures, TiesAndLocations) {
  Fixture fixture("llama-tiny-tied");
  NEEDS(fixture);
  Imported imported = test::import(fixture.folder / "dynamo-op18.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  int table = imported.argument("model.embed_tokens.weight");
  ASSERT_GE(table, 0);
  EXPECT_EQ(imported.argument("lm_head.weight"), -1);
  auto tied = imported.forward().getArgAttrOfType<ArrayAttr>(unsigned(table), graph::kTied);
  ASSERT_TRUE(tied);
  EXPECT_EQ(cast<StringAttr>(tied[0]).getValue(), "lm_head.weight");
  std::set<std::string> scopes;
  imported.forward().walk([&](Operation *op) {
    if (auto name = dyn_cast<NameLoc>(op->getLoc()))
      scopes.insert(name.getName().str());
  });
  for (const char *scope :
       {"model.embed_tokens", "model.layers.1.self_attn", "model.layers.0.mlp.down_proj", "model.norm", "lm_head"})
    EXPECT_TRUE(scopes.count(scope)) << scope;
}

} // namespace
