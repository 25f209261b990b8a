// Checkpoint names and orientations, as each exporter leaves traces of them.
#include "OnnxHarness.h"
#include "frontends/onnx/Names.h"

using namespace ztc::importer;
using namespace ztc::test;

namespace {

struct NamesModel {
  Model model;

  const Initializer &add(const std::string &name, Shape shape) {
    Initializer initializer;
    initializer.name = name;
    initializer.type = ElementType::F32;
    initializer.shape = shape;
    model.initializers.push_back(initializer);
    model.initializerOf[name] = &model.initializers.back();
    return model.initializers.back();
  }
  static Node dynamo(const std::string &op, const std::string &module, const std::string &fx = "") {
    Node node;
    node.op = op;
    node.outputs = {"y"};
    node.scopes = "['', 'model', '" + module + "', 'linear_3']";
    node.fxNode = fx;
    return node;
  }
  static Node torchScript(const std::string &op, const std::string &name) {
    Node node;
    node.op = op;
    node.outputs = {"y"};
    node.name = name;
    return node;
  }
};

TEST(OnnxNames, LostLinearWeightOfDynamo) {
  NamesModel m;
  const Initializer &weight = m.add("val_152", {64, 32});
  m.model.parameterTargets["p_model_layers_0_self_attn_q_proj_weight"] = "model.layers.0.self_attn.q_proj.weight";
  Node node = NamesModel::dynamo("MatMul", "model.layers.0.self_attn.q_proj",
                                 "args = (%mul_4, %p_model_layers_0_self_attn_q_proj_weight)");
  ParameterName found = Names(m.model).parameterOf(node, 1, weight);
  EXPECT_EQ(found.name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_TRUE(found.transposed);
  EXPECT_EQ(Names(m.model).scopeOf(node), "model.layers.0.self_attn.q_proj");
}

TEST(OnnxNames, LostLinearWeightOfTorchScript) {
  NamesModel m;
  m.add("model.model.embed_tokens.weight", {10, 4}); // the wrapper's attribute stands before every name
  const Initializer &weight = m.add("onnx::MatMul_703", {64, 32});
  Names names(m.model);
  Node node = NamesModel::torchScript("MatMul", "/model/model/layers.0/self_attn/q_proj/MatMul");
  EXPECT_EQ(names.parameterOf(node, 1, weight).name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_TRUE(names.parameterOf(node, 1, weight).transposed);
  EXPECT_EQ(names.checkpointName("model.model.embed_tokens.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(names.checkpointName("onnx::MatMul_703"), "");
}

TEST(OnnxNames, KeptNameKeepsItsOrientation) {
  NamesModel m;
  const Initializer &weight = m.add("transformer.h.0.attn.c_attn.weight", {64, 192});
  ParameterName found =
      Names(m.model).parameterOf(NamesModel::dynamo("Gemm", "transformer.h.0.attn.c_attn"), 1, weight);
  EXPECT_EQ(found.name, "transformer.h.0.attn.c_attn.weight");
  EXPECT_FALSE(found.transposed);
}

TEST(OnnxNames, MergedNormsAreToldApartByTheirUse) {
  NamesModel m;
  const Initializer &shared = m.add("model.layers.0.input_layernorm.weight", {64});
  m.model.parameterTargets["p_model_layers_0_input_layernorm_weight"] = "model.layers.0.input_layernorm.weight";
  m.model.parameterTargets["p_model_norm_weight"] = "model.norm.weight";
  Names names(m.model);
  EXPECT_EQ(
      names.parameterOf(NamesModel::dynamo("Mul", "model.norm", "args = (%p_model_norm_weight, %x)"), 0, shared).name,
      "model.norm.weight");
  EXPECT_EQ(names
                .parameterOf(NamesModel::dynamo("Mul", "model.layers.0.input_layernorm",
                                                "(%p_model_layers_0_input_layernorm_weight)"),
                             0, shared)
                .name,
            "model.layers.0.input_layernorm.weight");

  NamesModel t;
  const Initializer &merged = t.add("model.layers.0.input_layernorm.weight", {64});
  EXPECT_EQ(Names(t.model)
                .parameterOf(NamesModel::torchScript("Mul", "/model/layers.1/input_layernorm/Mul_1"), 0, merged)
                .name,
            "model.layers.1.input_layernorm.weight");
  Node alias = NamesModel::torchScript("Identity", "Identity_3");
  alias.outputs = {"model.norm.weight"};
  EXPECT_EQ(Names(t.model).parameterOf(alias, 0, merged).name, "model.norm.weight");
}

/// [block] * 2: the text says which tensor it is, the scopes where it is called.
TEST(OnnxNames, OneModuleInSeveralPlacesOfDynamo) {
  NamesModel m;
  for (const char *layer : {"0", "1", "2"})
    m.model.parameterTargets["p_layers_" + std::string(layer) + "_up_weight"] =
        "layers." + std::string(layer) + ".up.weight";
  const Initializer &first = m.add("val_1", {8, 16}), &second = m.add("val_2", {8, 16}), &own = m.add("val_3", {8, 16});
  const std::string shared = "args = (%x, %p_layers_1_up_weight)";
  m.model.nodes = {NamesModel::dynamo("MatMul", "layers.0.up", shared),
                   NamesModel::dynamo("MatMul", "layers.1.up", shared),
                   NamesModel::dynamo("MatMul", "layers.2.up", "args = (%x, %p_layers_2_up_weight)")};
  Names names(m.model);
  EXPECT_EQ(names.parameterOf(m.model.nodes[0], 1, first).name, "layers.0.up.weight");
  EXPECT_EQ(names.parameterOf(m.model.nodes[1], 1, second).name, "layers.0.up.weight");
  EXPECT_EQ(names.parameterOf(m.model.nodes[2], 1, own).name, "layers.2.up.weight");
}

TEST(OnnxNames, EmbeddingThatSharesTheHeadsTable) {
  NamesModel m;
  const Initializer &table = m.add("lm_head.weight", {320, 64});
  m.model.parameterTargets["p_lm_head_weight"] = "lm_head.weight";
  m.model.parameterTargets["p_model_embed_tokens_weight"] = "model.embed_tokens.weight";
  Names names(m.model);
  EXPECT_EQ(
      names.parameterOf(NamesModel::dynamo("Gather", "model.embed_tokens", "(%p_lm_head_weight, %input_ids)"), 0, table)
          .name,
      "model.embed_tokens.weight");
  EXPECT_EQ(names.parameterOf(NamesModel::dynamo("Transpose", "lm_head", "(%x, %p_lm_head_weight)"), 0, table).name,
            "lm_head.weight");
}

TEST(OnnxNames, BuffersAreNoParameters) {
  NamesModel m;
  m.model.parameterTargets["p_model_norm_weight"] = "model.norm.weight";
  Names names(m.model);
  EXPECT_EQ(names.kindOf(m.add("model.rotary_emb.inv_freq", {8})), Names::Kind::Buffer);
  EXPECT_EQ(names.kindOf(m.add("model.norm.weight", {64})), Names::Kind::Parameter);
  EXPECT_EQ(names.kindOf(m.add("val_7", {64, 64})), Names::Kind::Unknown);
}

/// A nn.Sequential that is called: what is in it repeats its name.
TEST(OnnxNames, SequencesOfTorchScript) {
  NamesModel m;
  m.add("layers.0.experts.1.0.bias", {8});
  auto moduleOf = [&](const std::string &path) {
    return Names(m.model).scopeOf(NamesModel::torchScript("MatMul", "/" + path + "/MatMul"));
  };
  EXPECT_EQ(moduleOf("net/net.0"), "net.0");
  EXPECT_EQ(moduleOf("net/net.2/net.2.0"), "net.2.0");
  EXPECT_EQ(moduleOf("layers.0/experts.1/experts.1.0"), "layers.0.experts.1.0"); // a name that the file holds
  EXPECT_EQ(moduleOf("layers.0/experts.0/experts.0.2"), "layers.0.experts.0.2");
  EXPECT_EQ(moduleOf("layers.0/experts.10/experts.1.0"), "layers.0.experts.10.experts.1.0");
}

/// Nobody calls a ModuleDict: it is in the names of its parameters alone.
TEST(OnnxNames, ContainersThatTorchScriptPassesOver) {
  NamesModel m;
  m.add("transformer.h.0.ln_1.weight", {8});
  m.add("blocks.0.attn.proj.bias", {8});
  m.model.nodes.push_back(NamesModel::torchScript("MatMul", "/blocks.0/attn/proj/MatMul"));
  auto moduleOf = [&](const std::string &path) {
    return Names(m.model).scopeOf(NamesModel::torchScript("MatMul", "/" + path + "/MatMul"));
  };
  EXPECT_EQ(moduleOf("h.0/attn/c_attn"), "transformer.h.0.attn.c_attn");
  EXPECT_EQ(moduleOf("blocks.0/proj"), "blocks.0.proj"); // the other one's attn is called, and would stand there
}

/// A module that is called twice, and modules of one name in two ModuleDicts: both get numbers.
TEST(OnnxNames, NumberedPathsOfTorchScript) {
  NamesModel m;
  m.model.exporter = "pytorch 2.15.0";
  auto reads = [&](const std::string &op, const std::string &path, const std::string &tensor) {
    Node node = NamesModel::torchScript(op, "/" + path + "/" + op);
    node.inputs = {"x", tensor};
    m.model.nodes.push_back(node);
  };
  const Initializer &norm = m.add("layers.0.norm.weight", {4});
  const Initializer &bias = m.add("layers.0.mlp.a.bias", {4});
  m.add("layers.0.other.weight", {4});
  const Initializer &folded = m.add("onnx::MatMul_7", {4, 4});
  reads("Mul", "layers.0/norm", norm.name);
  reads("Mul", "layers.0/norm_1", norm.name);
  reads("Mul", "layers.0/norm_2", "layers.0.other.weight"); // merged by a tool: of another name
  reads("MatMul", "layers.0/a", folded.name);
  reads("Add", "layers.0/a_1", bias.name);
  reads("Mul", "a/norm", m.add("left.a.norm.weight", {4}).name);
  reads("Mul", "a/norm_1", m.add("right.a.norm.weight", {4}).name);
  Names names(m.model);
  std::vector<std::string> found;
  for (const Node &node : m.model.nodes)
    found.push_back(names.parameterOf(node, 1, *m.model.initializer(node.inputs[1])).name);
  EXPECT_EQ(found, (std::vector<std::string>{"layers.0.norm.weight", "layers.0.norm.weight", "layers.0.norm_2.weight",
                                             "layers.0.a.weight", "layers.0.mlp.a.bias", "left.a.norm.weight",
                                             "right.a.norm.weight"}));
}

/// A parameter of the model itself has no dot in its name, and keeps its orientation as others do.
TEST(OnnxNames, ParametersOfTheOutermostModule) {
  NamesModel m;
  m.model.exporter = "pytorch 2.15.0";
  const Initializer &named = m.add("projection", {4, 8}), &folded = m.add("onnx::MatMul_7", {4, 8});
  m.model.nodes.push_back(NamesModel::torchScript("MatMul", "/head/MatMul"));
  Names names(m.model);
  EXPECT_EQ(names.parameterOf(NamesModel::torchScript("MatMul", "/MatMul"), 1, named).name, "projection");
  EXPECT_FALSE(names.parameterOf(NamesModel::torchScript("MatMul", "/MatMul"), 1, named).transposed);
  EXPECT_EQ(names.parameterOf(m.model.nodes[0], 1, folded).name, "head.weight");
  EXPECT_TRUE(names.parameterOf(m.model.nodes[0], 1, folded).transposed);
  EXPECT_EQ(names.checkpointName("703"), ""); // a number is not a name
}

/// Without any trace the initializer's own name is all there is.
TEST(OnnxNames, NoTraces) {
  NamesModel m;
  Node node;
  node.op = "MatMul";
  node.outputs = {"y"};
  EXPECT_EQ(Names(m.model).parameterOf(node, 1, m.add("w1", {4, 8})).name, "w1");
}

} // namespace
