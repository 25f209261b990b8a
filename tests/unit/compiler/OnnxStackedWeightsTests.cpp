// Experts, whose matrices graphs stack and checkpoints keep one by one, and parameters that graphs hold in other
// dimensions: both are found by their values, by names where the values are others, and never dropped without a word.
#include "CheckpointValues.h"

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
using importer::WeightRules;

namespace ztc::test::stacked {
namespace {

constexpr int64_t V = 12, H = 8, F = 6, E = 3;

struct Experts {
  std::vector<float> table = values(V * H, 1), head = values(V * 2 * F, 2), sinks = values(2 * F, 3);
  std::vector<std::vector<float>> gate, up;
  Experts() {
    for (int64_t e = 0; e < E; ++e) {
      gate.push_back(values(F * H, 10 + e));
      up.push_back(values(F * H, 20 + e));
    }
  }
  /// (E, 2F, H): the rows of gate, then those of up.
  std::vector<float> stacked() const {
    std::vector<float> all;
    for (int64_t e = 0; e < E; ++e)
      for (const std::vector<float> *matrix : {&gate[e], &up[e]})
        all.insert(all.end(), matrix->begin(), matrix->end());
    return all;
  }
};

class ExpertsModel : public testing::Test {
protected:
  void SetUp() override { setenv("ZTC_CACHE", (folder.path / "cache").c_str(), 1); }

  /// Each token goes to one expert; what it gives and a vector of the layer make the logits. `isTransposed`: the stack
  /// is (E, H, 2F).
  std::string graph(const Experts &x, const std::string &stack, bool isTransposed, const std::vector<float> &added) {
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {1, 4});
    writer.output("logits", ElementType::F32, {1, 4, V});
    writer.floats("model.embed_tokens.weight", {V, H}, x.table);
    std::vector<float> all;
    for (int64_t e = 0; e < E; ++e) {
      std::vector<float> matrix = x.gate[e];
      matrix.insert(matrix.end(), x.up[e].begin(), x.up[e].end());
      if (isTransposed)
        matrix = transposed(matrix, 2 * F, H);
      all.insert(all.end(), matrix.begin(), matrix.end());
    }
    if (isTransposed)
      writer.floats(stack, {E, H, 2 * F}, all);
    else
      writer.floats(stack, {E, 2 * F, H}, all);
    writer.floats("onnx::Expand_7", {1, 1, 2 * F}, added);
    writer.floats("onnx::MatMul_8", {2 * F, V}, transposed(x.head, V, 2 * F));
    writer.integers("experts", {}, {E});
    writer.integers("axis", {1}, {-2});
    writer.integers("flat", {3}, {1, 4, 2 * F});
    writer.integers("wide", {3}, {1, 4, 2 * F});
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "", "/model/embed_tokens/Gather");
    writer.node("Mod", {"input_ids", "experts"}, {"expert"}, {}, "", "/model/layers.0/mlp/Mod");
    writer.node("Gather", {stack, "expert"}, {"w"}, {}, "", "/model/layers.0/mlp/experts/Gather");
    if (!isTransposed)
      writer.node("Transpose", {"w"}, {"t"}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}, "",
                  "/model/layers.0/mlp/experts/Transpose");
    writer.node("Unsqueeze", {"x", "axis"}, {"row"}, {}, "", "/model/layers.0/mlp/Unsqueeze");
    writer.node("MatMul", {"row", isTransposed ? "w" : "t"}, {"y"}, {}, "", "/model/layers.0/mlp/experts/MatMul");
    writer.node("Reshape", {"y", "flat"}, {"z"}, {}, "", "/model/layers.0/mlp/Reshape");
    writer.node("Expand", {"onnx::Expand_7", "wide"}, {"s"}, {}, "", "/model/layers.0/self_attn/Expand");
    writer.node("Add", {"z", "s"}, {"u"}, {}, "", "/model/layers.0/Add");
    writer.node("MatMul", {"u", "onnx::MatMul_8"}, {"logits"}, {}, "", "/lm_head/MatMul");
    return folder.write("model.onnx", writer.bytes());
  }
  std::string graph(const Experts &x, const std::string &stack, bool isTransposed) {
    return graph(x, stack, isTransposed, x.sinks);
  }

  static std::vector<Stored> checkpoint(const Experts &x) {
    std::vector<Stored> tensors{{"lm_head.weight", {V, 2 * F}, x.head},
                                {"model.embed_tokens.weight", {V, H}, x.table},
                                {"model.layers.0.self_attn.sinks", {2 * F}, x.sinks}};
    for (int64_t e = 0; e < E; ++e) {
      std::string name = "model.layers.0.mlp.experts." + std::to_string(e);
      tensors.push_back({name + ".gate_proj.weight", {F, H}, x.gate[e]});
      tensors.push_back({name + ".up_proj.weight", {F, H}, x.up[e]});
    }
    return tensors;
  }

  Imported against(const std::string &onnx, const std::vector<Stored> &tensors, WeightRules rules = {}) {
    ImportOptions options;
    options.weights = folder.write("model.safetensors", safetensors(tensors));
    options.weightRules = rules;
    return import(onnx, options);
  }

  TemporaryFolder folder;
};

TEST_F(ExpertsModel, MatricesOfExpertsAreTrainedOneByOne) {
  Experts x;
  for (bool isTransposed : {false, true}) {
    std::string onnx = graph(x, "val_3", isTransposed);
    Imported imported = against(onnx, checkpoint(x));
    expectSameLogits(onnx, imported);
    EXPECT_EQ(imported.report.comparison, "the same checkpoint: 4 of 4 tensors agree");
    EXPECT_EQ(imported.report.weights.size(), 3u + 2 * E);
    EXPECT_NE(imported.argument("model.layers.0.mlp.experts.2.up_proj.weight"), -1);
    EXPECT_TRUE(imported.report.notes.empty());
    for (bool WeightRules::*rule : {&WeightRules::stack, &WeightRules::join}) {
      WeightRules rules;
      rules.*rule = false;
      expectError(against(onnx, checkpoint(x), rules), "('val_3')");
    }
  }
}

TEST_F(ExpertsModel, OneChangedElementOfAnExpertIsNamed) {
  Experts x, changed;
  changed.up[1][2 * H + 5] += 1e-5f;
  std::string onnx = graph(changed, "val_3", false);
  expectError(against(onnx, checkpoint(x)), "'model.layers.0.mlp.experts.1.up_proj.weight' of the checkpoint has "
                                            "shape (6, 8), and at (1, 8, 5) the value");
}

TEST_F(ExpertsModel, NamesDecideWhereTheValuesAreOthers) {
  Experts x, tuned;
  for (std::vector<float> *tensor : {&tuned.table, &tuned.head, &tuned.sinks})
    *tensor = mapped(*tensor, [](float value) { return 0.5f * value + 0.1f * value * value; });
  for (int64_t e = 0; e < E; ++e)
    for (std::vector<float> *tensor : {&tuned.gate[e], &tuned.up[e]})
      *tensor = mapped(*tensor, [](float value) { return 0.5f * value + 0.1f * value * value; });
  tuned.sinks = x.sinks; // a constant until its values say which tensor it is
  folder.write("config.json", R"({"model_type": "qwen3_moe"})");
  for (bool isMixtral : {false, true}) {
    std::vector<Stored> tensors = checkpoint(tuned);
    if (isMixtral)
      for (Stored &tensor : tensors)
        for (auto [from, to] : {std::pair{".mlp.", ".block_sparse_moe."}, {"gate_proj", "w1"}, {"up_proj", "w3"}})
          if (size_t at = tensor.name.find(from); at != std::string::npos)
            tensor.name.replace(at, strlen(from), to);
    Imported imported = against(graph(x, "model.layers.0.mlp.experts.gate_up_proj", false), tensors);
    EXPECT_EQ(imported.report.weights.size(), 3u + 2 * E);
    std::string tunedGraph = graph(tuned, "model.layers.0.mlp.experts.gate_up_proj", false);
    expectSameLogits(tunedGraph, imported);
  }
}

TEST_F(ExpertsModel, AVectorInOtherDimensionsIsTrained) {
  Experts x;
  std::string onnx = graph(x, "val_3", false);
  Imported imported = against(onnx, checkpoint(x));
  EXPECT_NE(imported.argument("model.layers.0.self_attn.sinks"), -1);
  WeightRules rules;
  rules.reshape = false;
  expectError(against(onnx, checkpoint(x), rules), "model.layers.0.self_attn.sinks ('onnx::Expand_7') (1, 1, 12)");
}

TEST_F(ExpertsModel, AParameterThatNothingStandsForIsNotDropped) {
  Experts x;
  std::vector<float> computed = mapped(x.sinks, [](float value) { return std::exp(value) + value; });
  std::string onnx = graph(x, "val_3", false, computed);
  expectError(against(onnx, checkpoint(x)),
              "'model.layers.0.self_attn.sinks' would not be trained: no parameter of the graph stands for it; the "
              "exporter left it out, or computed the constant 'onnx::Expand_7' from it");
  // Where nothing in the graph can be it, the exporter left it out, unless it is not to be trained.
  std::vector<Stored> tensors = checkpoint(x);
  tensors[2] = {"model.layers.0.self_attn.sinks", {2}, {0.5f, 0.25f}};
  tensors.push_back({"visual.proj.weight", {2, 2}, {1, 2, 3, 4}});
  expectError(against(onnx, tensors), "'model.layers.0.self_attn.sinks' would not be trained");
  folder.write("model.safetensors", safetensors(tensors));
  ImportOptions options;
  options.weights = folder.path / "model.safetensors";
  options.freeze = "sinks";
  Imported imported = import(onnx, options);
  ASSERT_TRUE(imported.module) << imported.errors;
  ASSERT_EQ(imported.report.notes.size(), 1u);
  EXPECT_NE(imported.report.notes[0].find("visual.proj.weight"), std::string::npos);
}

} // namespace
} // namespace ztc::test::stacked
