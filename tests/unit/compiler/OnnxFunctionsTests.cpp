// Constants that an exporter computed from parameters: functions of them again, or an error that names both.
#include "CheckpointValues.h"
#include "frontends/onnx/WriteModel.h"
#include "gmock/gmock.h"
#include <cmath>

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
using testing::Contains;
using testing::HasSubstr;

namespace ztc::test::functions {
namespace {

constexpr int64_t V = 12, H = 8;

class Functions : public testing::Test {
protected:
  void SetUp() override { setenv("ZTC_CACHE", (folder.path / "cache").c_str(), 1); }

  /// Rows of the table x; `y` of them is for the case to compute, then comes the head.
  OnnxWriter begin() const {
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {1, 4});
    writer.output("logits", ElementType::F32, {1, 4, V});
    writer.floats("model.embed_tokens.weight", {V, H}, table);
    writer.floats("model.head.weight", {H, V}, head);
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "", "/model/embed_tokens/Gather");
    return writer;
  }
  std::string finish(OnnxWriter &writer) const {
    writer.node("MatMul", {"y", "model.head.weight"}, {"logits"}, {}, "", "/model/MatMul");
    return folder.write("model.onnx", writer.bytes());
  }

  Imported against(const std::string &onnx, std::vector<Stored> tensors, ImportOptions options = {},
                   bool isTuned = false) const {
    tensors.push_back({"model.embed_tokens.weight", {V, H}, isTuned ? values(V * H, 11) : table});
    tensors.push_back({"model.head.weight", {H, V}, isTuned ? values(V * H, 12) : head});
    options.weights = folder.write("model.safetensors", safetensors(tensors));
    return import(onnx, options);
  }

  /// A vector that TorchScript computed, in the place of one that no parameter could have.
  std::string withVector(const std::vector<float> &constant) const {
    OnnxWriter writer = begin();
    writer.floats("onnx::Mul_9", {1, 1, H}, constant);
    writer.node("Mul", {"x", "onnx::Mul_9"}, {"y"}, {}, "", "/model/layers.0/Mul");
    return finish(writer);
  }

  /// A number that dynamo computed and calls `name`.
  std::string withNumber(const std::string &name, float constant) const {
    OnnxWriter writer = begin();
    writer.floats(name, {}, {constant});
    writer.node("Mul", {"x", name}, {"y"}, {}, "", "",
                "%mul_9 : [num_users=1] = (args = (%x, %" + name + "), kwargs = {})");
    return finish(writer);
  }

  /// The named tensor of the file into which the trained tensors were written; `stored` is what the graph was exported
  /// from.
  std::vector<float> written(const std::string &onnx, const Stored &stored, const std::vector<float> &trained,
                             const std::string &name) const {
    importer::WriteBack writeBack;
    ImportOptions options;
    options.writeBack = &writeBack;
    Imported imported = against(onnx, {stored}, options);
    EXPECT_TRUE(imported.module) << imported.errors;
    std::vector<importer::TensorView> views;
    auto view = [&](const std::string &tensor, const std::vector<int64_t> &shape, const std::vector<float> &elements) {
      views.push_back({tensor,
                       {reinterpret_cast<const char *>(elements.data()), elements.size() * sizeof(float)},
                       ElementType::F32,
                       importer::Shape(shape.begin(), shape.end())});
    };
    view(stored.name, stored.shape, trained);
    view("model.embed_tokens.weight", {V, H}, table);
    view("model.head.weight", {H, V}, head);
    const std::string out = (folder.path / "written.onnx").string();
    auto done = importer::writeModel(writeBack, {onnx, out, 1 << 20}, [&](llvm::StringRef wanted) {
      auto found = llvm::find_if(views, [&](const importer::TensorView &v) { return v.name == wanted; });
      return found == views.end() ? nullptr : &*found;
    });
    EXPECT_TRUE(done.isOk()) << done.status().message();
    std::string error;
    std::unique_ptr<importer::Model> model = importer::readModel(out, error);
    const importer::Initializer *initializer = model ? model->initializer(name) : nullptr;
    EXPECT_TRUE(initializer) << error;
    std::vector<float> elements(initializer ? initializer->count() : 0);
    if (initializer)
      std::memcpy(elements.data(), initializer->bytes.data(), initializer->bytes.size());
    return elements;
  }

  TemporaryFolder folder;
  const std::vector<float> table = values(V * H, 1), head = values(V * H, 2), w = values(H, 3);
};

TEST_F(Functions, EachOneIsUndone) {
  const std::vector<std::pair<std::string, std::function<float(float)>>> functions{
      {"1 - w", [](float x) { return 1 - x; }},
      {"1 + w", [](float x) { return 1 + x; }},
      {"-w", [](float x) { return -x; }},
      {"w * w", [](float x) { return x * x; }},
      {"exp(w)", [](float x) { return std::exp(x); }},
      {"-exp(w)", [](float x) { return -std::exp(x); }},
      {"sigmoid(w)", [](float x) { return 1 / (1 + std::exp(-x)); }},
      {"1 - sigmoid(w)", [](float x) { return 1 - 1 / (1 + std::exp(-x)); }},
      {"tanh(w)", [](float x) { return std::tanh(x); }},
      {"softplus(w)", [](float x) { return std::log1p(std::exp(x)); }},
      {"1 / w", [](float x) { return 1 / x; }},
      {"0.35 * w", [](float x) { return 0.35f * x; }},
      {"2 * sigmoid(w)", [](float x) { return 2 / (1 + std::exp(-x)); }},
      {"0.5 * tanh(w)", [](float x) { return 0.5f * std::tanh(x); }},
      {"exp(-exp(w))", [](float x) { return std::exp(-std::exp(x)); }},
      {"log(sigmoid(w))", [](float x) { return -std::log1p(std::exp(-x)); }},
  };
  for (const auto &[words, function] : functions) {
    std::string onnx = withVector(mapped(w, function));
    Imported imported = against(onnx, {{"model.layers.0.mix", {H}, w}});
    expectSameLogits(onnx, imported);
    EXPECT_GE(imported.argument("model.layers.0.mix"), 0) << words;
    EXPECT_THAT(imported.report.notes, Contains(HasSubstr(words + " of model.layers.0.mix, by value"))) << words;
  }
  std::vector<float> positive = mapped(w, [](float x) { return x * x + 0.1f; }), soft;
  float sum = 0;
  for (float x : w)
    sum += std::exp(x);
  soft = mapped(w, [&](float x) { return std::exp(x) / sum; });
  for (const auto &[words, stored, constant] :
       {std::tuple{"sqrt(w)", positive, mapped(positive, [](float x) { return std::sqrt(x); })},
        {"1 / sqrt(w)", positive, mapped(positive, [](float x) { return 1 / std::sqrt(x); })},
        {"log(w)", positive, mapped(positive, [](float x) { return std::log(x); })},
        {"softmax(w)", w, soft}}) {
    std::string onnx = withVector(constant);
    Imported imported = against(onnx, {{"model.layers.0.mix", {H}, stored}});
    expectSameLogits(onnx, imported);
    EXPECT_THAT(imported.report.notes, Contains(HasSubstr(words)));
  }
}

TEST_F(Functions, ExportWritesThatOfTheTrainedValue) {
  auto softmax = [](const std::vector<float> &x) {
    float sum = 0;
    for (float element : x)
      sum += std::exp(element);
    return mapped(x, [&](float element) { return std::exp(element) / sum; });
  };
  auto each = [](float (*of)(float)) {
    return [of](const std::vector<float> &x) { return mapped(x, [of](float element) { return of(element); }); };
  };
  const std::vector<std::pair<std::string, std::function<std::vector<float>(const std::vector<float> &)>>> functions{
      {"1 - w", each([](float x) { return 1 - x; })},
      {"exp(w)", each([](float x) { return std::exp(x); })},
      {"sigmoid(w)", each([](float x) { return 1 / (1 + std::exp(-x)); })},
      {"0.35 * w", each([](float x) { return 0.35f * x; })},
      {"-exp(w)", each([](float x) { return -std::exp(x); })},
      {"2 * sigmoid(w)", each([](float x) { return 2 / (1 + std::exp(-x)); })},
      {"softmax(w)", softmax},
  };
  const std::vector<float> trained = values(H, 21);
  for (const auto &[words, function] : functions) {
    const std::vector<float> wanted = function(trained),
                             found = written(withVector(function(w)), {"model.layers.0.mix", {H}, w}, trained,
                                             "onnx::Mul_9");
    ASSERT_EQ(found.size(), wanted.size()) << words;
    for (int64_t i = 0; i < H; ++i)
      EXPECT_NEAR(found[i], wanted[i], 2e-6 * std::max(1.0f, std::fabs(wanted[i]))) << words;
  }
  EXPECT_FLOAT_EQ(written(withNumber("sub_1", 0.4f), {"model.mix", {}, {0.6f}}, {0.25f}, "sub_1")[0], 0.75f);
  EXPECT_FLOAT_EQ(
      written(withNumber("select_2", -1.5f), {"model.mix", {3}, {0.25f, -1.5f, 2}}, {1, 7, 3}, "select_2")[0], 7);
}

/// The tensor itself and a function of it both stand in the file.
TEST_F(Functions, ExportWritesTheTensorToo) {
  OnnxWriter writer = begin();
  writer.floats("model.layers.0.mix", {1, 1, H}, w);
  writer.floats("onnx::Mul_9", {1, 1, H}, mapped(w, [](float x) { return 1 - x; }));
  writer.node("Mul", {"x", "model.layers.0.mix"}, {"a"}, {}, "", "/model/layers.0/Mul");
  writer.node("Mul", {"x", "onnx::Mul_9"}, {"b"}, {}, "", "/model/layers.0/Mul_1");
  writer.node("Add", {"a", "b"}, {"y"}, {}, "", "/model/layers.0/Add");
  const std::string onnx = finish(writer);
  const std::vector<float> trained = values(H, 22);
  const Stored stored{"model.layers.0.mix", {1, 1, H}, w};
  EXPECT_EQ(written(onnx, stored, trained, "model.layers.0.mix"), trained);
  EXPECT_EQ(written(onnx, stored, trained, "onnx::Mul_9"), mapped(trained, [](float x) { return 1 - x; }));
}

TEST_F(Functions, WithoutTheRuleItIsAnError) {
  std::string onnx = withVector(mapped(w, [](float x) { return std::exp(x); }));
  ImportOptions options;
  options.weightRules.function = false;
  Imported imported = against(onnx, {{"model.layers.0.mix", {H}, w}}, options);
  expectError(imported, "'model.layers.0.mix' would not be trained");
  expectError(imported, "'onnx::Mul_9'");
  expectError(imported, "--freeze=REGEX");
}

TEST_F(Functions, EveryElementIsHeldAgainstTheFunction) {
  std::vector<float> constant = mapped(w, [](float x) { return std::exp(x); });
  constant[5] += 1e-5f;
  expectError(against(withVector(constant), {{"model.layers.0.mix", {H}, w}}),
              "'model.layers.0.mix' would not be trained");
}

/// What the graph reads under its own name as well: x * w + x * (1 - w); no checkpoint is needed.
TEST_F(Functions, OfAParameterThatTheGraphReadsToo) {
  OnnxWriter writer = begin();
  writer.floats("model.layers.0.mix", {1, 1, H}, w);
  writer.floats("onnx::Mul_9", {1, 1, H}, mapped(w, [](float x) { return 1 - x; }));
  writer.node("Mul", {"x", "model.layers.0.mix"}, {"a"}, {}, "", "/model/layers.0/Mul");
  writer.node("Mul", {"x", "onnx::Mul_9"}, {"b"}, {}, "", "/model/layers.0/Mul_1");
  writer.node("Add", {"a", "b"}, {"y"}, {}, "", "/model/layers.0/Add");
  std::string onnx = finish(writer);
  Imported own = import(onnx);
  ASSERT_TRUE(own.module) << own.errors;
  EXPECT_GE(own.argument("model.layers.0.mix"), 0);
  EXPECT_EQ(own.count("graph.sub"), 1u);
  Imported imported = against(onnx, {{"model.layers.0.mix", {1, 1, H}, w}});
  expectSameLogits(onnx, imported);
  // Another checkpoint: the graph's own values still prove what the constant is.
  Imported tuned = against(onnx, {{"model.layers.0.mix", {1, 1, H}, values(H, 7)}}, {}, /*isTuned=*/true);
  ASSERT_TRUE(tuned.module) << tuned.errors;
  EXPECT_EQ(tuned.count("graph.sub"), 1u);
}

TEST_F(Functions, NumbersNeedTheExportersWord) {
  const float number = 0.6f;
  Imported named = against(withNumber("sub_1", 1 - number), {{"model.layers.0.mix", {}, {number}}});
  ASSERT_TRUE(named.module) << named.errors;
  EXPECT_GE(named.argument("model.layers.0.mix"), 0);
  // A sum is not an exponential, and a literal number is nobody's function.
  expectError(against(withNumber("exp_1", 1 - number), {{"model.layers.0.mix", {}, {number}}}),
              "may be a function of model.layers.0.mix");
  Imported element = against(withNumber("select_2", -1.5f), {{"model.mixture", {3}, {0.25f, -1.5f, 2}}});
  ASSERT_TRUE(element.module) << element.errors;
  EXPECT_THAT(element.report.notes, Contains(HasSubstr("element 1 of w of model.mixture")));
}

TEST_F(Functions, TwoThatAreEqualAreAnError) {
  Imported imported =
      against(withNumber("sub_1", 0.4f), {{"model.layers.0.mix", {}, {0.6f}}, {"model.layers.1.mix", {}, {0.6f}}});
  expectError(imported, "1 - w of model.layers.0.mix, or 1 - w of model.layers.1.mix");
  expectError(imported, "optimize=False");
}

TEST_F(Functions, WhatTheExporterLeftOutIsAnErrorUnlessItIsFrozen) {
  OnnxWriter writer = begin();
  writer.node("Tanh", {"x"}, {"y"});
  std::string onnx = finish(writer);
  const std::vector<Stored> tensors{{"model.residual", {}, {1.0f}}};
  expectError(against(onnx, tensors), "'model.residual' would not be trained");
  ImportOptions options;
  options.freeze = "resid";
  Imported imported = against(onnx, tensors, options);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(imported.report.freezesUnread);
  EXPECT_FALSE(imported.report.freezesParameters);
}

/// TorchScript without folding: the function is in the graph, and only the name says that its operand is a parameter.
TEST_F(Functions, OnesThatStandInTheGraphTrainTheirParameters) {
  OnnxWriter writer = begin();
  writer.floats("model.gate", {H}, w);
  writer.floats("model.other", {H}, values(H, 8));
  writer.node("Mul", {"model.gate", "model.other"}, {"p"});
  writer.node("Exp", {"p"}, {"e"});
  writer.node("Mul", {"x", "e"}, {"y"});
  std::string onnx = finish(writer);
  Imported imported = against(onnx, {{"model.gate", {H}, w}, {"model.other", {H}, values(H, 8)}});
  expectSameLogits(onnx, imported);
  EXPECT_GE(imported.argument("model.gate"), 0);
  EXPECT_GE(imported.argument("model.other"), 0);
}

/// Two numbers of which neither is round are told from others; they are not angles.
TEST_F(Functions, TwoNumbersAreEnough) {
  OnnxWriter writer = begin();
  writer.floats("softmax_2", {2, 1, 1, 1}, {0.57792157f, 0.42207843f});
  writer.node("Mul", {"x", "softmax_2"}, {"streams"}, {}, "", "",
              "%mul_9 : [num_users=1] = (args = (%x, %softmax_2), kwargs = {})");
  writer.integers("axes", {1}, {0});
  writer.node("ReduceSum", {"streams", "axes"}, {"y"}, {{"keepdims", int64_t(0)}});
  std::string onnx = finish(writer);
  Imported imported = against(onnx, {{"model.layers.0.read", {2}, {0.00364802f, -0.3105994f}}});
  expectSameLogits(onnx, imported);
  EXPECT_GE(imported.argument("model.layers.0.read"), 0);
}

/// 1 + w stands where a norm's weight could; the checkpoint has no tensor of such a name.
TEST_F(Functions, OnePlusUnderAnotherName) {
  OnnxWriter writer = begin();
  writer.floats("add_5", {H}, mapped(w, [](float x) { return 1 + x; }));
  writer.node("Mul", {"x", "add_5"}, {"y"}, {}, "['', 'layers.0', 'mul_7']", "node_mul_7",
              "%mul_7 : [num_users=1] = (args = (%x, %add_5), kwargs = {})");
  std::string onnx = finish(writer);
  Imported imported = against(onnx, {{"model.layers.0.extra", {H}, w}});
  expectSameLogits(onnx, imported);
  EXPECT_GE(imported.argument("model.layers.0.extra"), 0);
}

/// TorchScript: a slope of distances. Its name is a tensor's of the checkpoint, which may be a buffer as well.
TEST_F(Functions, WithPositionsOnlyThePersonKnows) {
  OnnxWriter writer = begin();
  writer.floats("model.layers.0.slope", {H}, w);
  writer.node("Shape", {"input_ids"}, {"shape"});
  writer.integers("one", {1}, {1});
  writer.integers("start", {}, {0});
  writer.integers("step", {}, {1});
  writer.node("Gather", {"shape", "step"}, {"length"});
  writer.node("Range", {"start", "length", "step"}, {"positions"});
  writer.node("Cast", {"positions"}, {"reals"}, {{"to", int64_t(1)}});
  writer.node("Unsqueeze", {"reals", "one"}, {"column"});
  writer.node("Softplus", {"model.layers.0.slope"}, {"positive"});
  writer.node("Mul", {"positive", "column"}, {"bias"});
  writer.node("Add", {"x", "bias"}, {"y"});
  std::string onnx = finish(writer);
  const std::vector<Stored> tensors{{"model.layers.0.slope", {H}, w}};
  Imported imported = against(onnx, tensors);
  expectError(imported, "'model.layers.0.slope' would not be trained");
  expectError(imported, "it is a parameter or a buffer");
  ImportOptions options;
  options.freeze = "slope";
  Imported frozen = against(onnx, tensors, options);
  EXPECT_TRUE(frozen.module) << frozen.errors;
  expectError(import(onnx), "'model.layers.0.slope' would not be trained");
  EXPECT_TRUE(import(onnx, options).module);
}

/// TorchScript without folding and without a checkpoint: exp(w), where w may be a buffer.
TEST_F(Functions, WithoutACheckpointOnlyThePersonKnows) {
  OnnxWriter writer = begin();
  writer.floats("model.layers.0.logarithm", {H}, w);
  writer.node("Exp", {"model.layers.0.logarithm"}, {"scale"});
  writer.node("Mul", {"x", "scale"}, {"y"});
  std::string onnx = finish(writer);
  expectError(import(onnx), "the model computes with it, and this export does not tell");
  expectError(import(onnx), "Give the checkpoint with --weights");
  ImportOptions options;
  options.freeze = "logarithm";
  EXPECT_TRUE(import(onnx, options).module);
  Imported imported = against(onnx, {{"model.layers.0.logarithm", {H}, w}});
  EXPECT_GE(imported.argument("model.layers.0.logarithm"), 0);
}

/// A scalar that data are multiplied by, and what TorchScript folded of a tensor whose name it left out.
TEST_F(Functions, WithoutACheckpointScalarsAndFoldedTensorsAreErrors) {
  OnnxWriter scalar = begin();
  scalar.floats("model.layers.0.gain", {}, {0.7f});
  scalar.node("Mul", {"x", "model.layers.0.gain"}, {"y"});
  expectError(import(finish(scalar)), "'model.layers.0.gain' would not be trained");
  OnnxWriter folded = begin();
  folded.floats("onnx::Mul_9", {1, 1, H}, mapped(w, [](float x) { return 3 * x; }));
  folded.node("Mul", {"x", "onnx::Mul_9"}, {"y"});
  std::string onnx = finish(folded);
  expectError(import(onnx), "the constant 'onnx::Mul_9' would not be trained");
  ImportOptions options;
  options.freeze = "Mul_9";
  EXPECT_TRUE(import(onnx, options).module);
}

} // namespace
} // namespace ztc::test::functions
