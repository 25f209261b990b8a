// What is wrong with a model is said in one message; nothing crashes, whatever the bytes.
#include "OnnxHarness.h"
#include "llvm/ADT/STLExtras.h"
#include <fstream>
#include <functional>
#include <limits>
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
  refused(folder.write("model.onnx", writer.bytes()),
          {"Frobnicate at first, second", "NonZero at third (as many rows as data say: node '",
           "(MatMul) computes with the places of the rows that node 'third' picks"});
}

TEST(OnnxBadInput, OpsThatAreLeftOutOnPurposeSayWhatToDo) {
  TemporaryFolder folder;
  for (const auto &[op, advice] : {std::pair{"ai.onnx.preview.training::Gradient", "export the forward model"},
                                   std::pair{"Bernoulli", "export the model in evaluation mode"}}) {
    OnnxWriter writer = smallModel();
    writer.node(op, {"x"}, {"y"}, {}, "", "one");
    writer.node("MatMul", {"y", "head"}, {"logits"});
    refused(folder.write("model.onnx", writer.bytes()), {op, advice});
  }
}

TEST(OnnxBadInput, GraphThatMakesNoSense) {
  TemporaryFolder folder;
  OnnxWriter undefined = smallModel();
  undefined.node("MatMul", {"nobody", "head"}, {"logits"}, {}, "", "product");
  refused(folder.write("a.onnx", undefined.bytes()), {"product", "nobody"});
  OnnxWriter missing = smallModel();
  refused(folder.write("b.onnx", missing.bytes()), {"logits", "is not computed by any node"});
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

TEST(OnnxBadInput, TiesOfDataThatIsNotThere) {
  for (const int64_t place : {0, 112}) { // of the head; the table's 112 bytes are the first
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {int64_t(2), int64_t(8)});
    writer.external("model.embed_tokens.weight", {7, 4}, "absent.bin", 0);
    writer.external("lm_head.weight", {7, 4}, "absent.bin", place);
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"});
    writer.node("Transpose", {"lm_head.weight"}, {"w"}, {{"perm", std::vector<int64_t>{1, 0}}});
    writer.node("MatMul", {"x", "w"}, {"logits"});
    writer.output("logits", ElementType::F32, {int64_t(2), int64_t(8), int64_t(7)});
    TemporaryFolder folder;
    const std::string path = folder.write("model.onnx", writer.bytes());
    const Imported imported = test::import(path);
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(imported.report.weights.size(), place == 0 ? 1u : 2u) << "one place holds one matrix";
    folder.write("config.json", R"({"model_type": "llama", "tie_word_embeddings": true})");
    EXPECT_EQ(test::import(path).report.weights.size(), 1u) << "two places may hold it twice, as config.json says";
  }
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

/// A model whose logits need the elements of what `build` computes as "made" (int64, shape (2): rows of a reshape).
std::string withComputed(const std::function<void(OnnxWriter &)> &build) {
  OnnxWriter writer = smallModel();
  build(writer);
  writer.node("Reshape", {"x", "made"}, {"flat"}, {}, "", "use");
  writer.node("MatMul", {"flat", "head"}, {"logits"}, {}, "lm_head");
  return writer.bytes();
}

/// Each node is held against its operator's schema: number of inputs and outputs, attributes, types.
TEST(OnnxBadInput, NodesThatDoNotFitTheirOperator) {
  using Attributes = std::vector<std::pair<std::string, OnnxWriter::Attribute>>;
  struct Case {
    std::string op;
    std::vector<std::string> inputs;
    Attributes attributes;
    std::string message;
    unsigned outputs = 1;
  };
  const std::vector<Case> cases = {
      {"Mul", {"x"}, {}, "has 1 input, the operator needs 2"},
      {"Mul", {"x", ""}, {}, "has 1 input, the operator needs 2"},
      {"Mul", {"x", "x", "x"}, {}, "has 3 inputs, the operator has at most 2"},
      {"Where", {"", "x", "x"}, {}, "input 0 (condition) is left out, but the operator needs it"},
      {"Relu", {"x"}, {}, "has 2 outputs, the operator has at most 1", 2},
      {"Unsqueeze", {"x"}, {}, "has 1 input, the operator needs 2"},
      {"Reshape", {"x"}, {}, "has 1 input, the operator needs 2"},
      {"Concat", {"x", "x"}, {}, "lacks the attribute 'axis'"},
      {"Concat", {"x", "x"}, {{"axis", 1.0f}}, "attribute 'axis' is a float, not an integer"},
      {"Mul", {"x", "two"}, {}, "input 0 (A) and input 1 (B) have types F32 and I64, the operator needs one type"},
      {"Gather", {"x", "x"}, {}, "input 1 (indices) has type F32, the operator takes U8, I8"},
      {"And", {"x", "x"}, {}, "input 0 (A) has type F32, the operator takes BOOL"},
      {"SimplifiedLayerNormalization", {"x"}, {}, "has 1 input, the operator needs 2"},
  };
  TemporaryFolder folder;
  for (const Case &c : cases) {
    OnnxWriter writer = smallModel();
    writer.integers("two", {}, {2});
    std::vector<std::string> outputs = {"y", "z"};
    outputs.resize(c.outputs);
    writer.node(c.op, c.inputs, outputs, c.attributes, "", "bad");
    writer.node("MatMul", {"x", "head"}, {"logits"}, {}, "lm_head");
    refused(folder.write("model.onnx", writer.bytes()), {"node 'bad' (" + c.op + ")", c.message});
  }
}

/// What is not as it should be, but cannot do harm, is a note.
TEST(OnnxBadInput, InputsOfAnotherKind) {
  TemporaryFolder folder;
  OnnxWriter floats;
  floats.input("input_ids", ElementType::F32, {"batch", "sequence"});
  floats.floats("model.embed_tokens.weight", {7, 4}, std::vector<float>(28, 0.5f));
  floats.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"logits"}, {}, "", "lookup");
  floats.output("logits", ElementType::F32, {"batch", "sequence", int64_t(4)});
  refused(folder.write("floats.onnx", floats.bytes()), {"node 'lookup' (Gather) input 1 (indices) has type F32",
                                                        "'input_ids' is an input of the graph", "torch.int64"});
  // A sum runs over it as over a mask, but no row of tokens has this length.
  OnnxWriter gate = smallModel();
  gate.input("gate", ElementType::F32, {int64_t(2), int64_t(3)});
  gate.node("ReduceSum", {"gate"}, {"sum"}, {{"keepdims", int64_t(0)}});
  gate.node("Mul", {"x", "sum"}, {"y"});
  gate.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
  refused(folder.write("gate.onnx", gate.bytes()), {"input 'gate' (f32 (2, 3)) has no role", "--input=ROLE=gate"});
}

TEST(OnnxBadInput, HarmlessOddities) {
  OnnxWriter writer = smallModel();
  writer.node("Mul", {"x", "x", ""}, {"y"}, {{"colour", int64_t(3)}});
  writer.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", writer.bytes()));
  EXPECT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(llvm::any_of(imported.report.notes, [](const std::string &note) {
    return note.find("Mul has no attribute 'colour'") != std::string::npos;
  }));
}

/// What PyTorch drops is chance: a graph of training mode is refused, one that drops nothing is taken as it is.
TEST(OnnxBadInput, DropoutOfTrainingMode) {
  struct Case {
    float ratio;
    bool training, isTaken;
  };
  for (const Case &c : {Case{0.5f, true, false}, Case{0.0f, true, true}, Case{0.5f, false, true}}) {
    OnnxWriter writer = smallModel();
    writer.floats("ratio", {}, {c.ratio});
    writer.booleans("training", {}, {c.training});
    writer.node("Dropout", {"x", "ratio", "training"}, {"y"}, {}, "", "drop");
    writer.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
    TemporaryFolder folder;
    const std::string path = folder.write("model.onnx", writer.bytes());
    if (!c.isTaken) {
      refused(path, {"node 'drop' (Dropout): drops elements by chance (training_mode, ratio 0.5", "model.eval()"});
      continue;
    }
    ImportOptions options;
    options.batch = 2;
    options.seq = 3;
    Imported imported = test::import(path, options);
    ASSERT_TRUE(imported.module) << imported.errors;
    std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
    ASSERT_TRUE(logits);
    EXPECT_DOUBLE_EQ(logits->reals[0], 0.5);
  }
}

/// A model that has diverged chooses places of its rows too, NaN before any number, as PyTorch does.
TEST(OnnxBadInput, WhatIsChosenByNaNIsAPlace) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  struct Choice {
    const char *op;
    std::vector<std::pair<std::string, OnnxWriter::Attribute>> attributes;
    std::vector<double> places; // of three tokens
  };
  for (const Choice &c : {Choice{"TopK", {}, {1, 3, 2, 1, 3, 0, 0, 1, 2}},
                          {"TopK", {{"largest", int64_t(0)}}, {1, 3, 0, 0, 2, 1, 0, 1, 2}},
                          {"ArgMax", {{"axis", int64_t(-1)}}, {1, 1, 0}},
                          {"ArgMax", {{"axis", int64_t(-1)}, {"select_last_index", int64_t(1)}}, {3, 3, 3}},
                          {"ArgMin", {{"axis", int64_t(-1)}}, {1, 0, 0}}}) {
    const bool isMany = c.op == std::string("TopK");
    const int64_t count = isMany ? 3 : 1;
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {"batch", "sequence"});
    writer.floats("embed.weight", {3, 4}, {1, nan, inf, nan, 5, 6, 5, 6, nan, nan, nan, nan});
    writer.integers("three", {1}, {3});
    writer.floats("head.weight", {count, 3},
                  isMany ? std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1} : std::vector<float>{1, 0, 0});
    writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
    if (isMany)
      writer.node(c.op, {"x", "three"}, {"values", "places"}, c.attributes);
    else
      writer.node(c.op, {"x"}, {"places"}, c.attributes);
    writer.node("Cast", {"places"}, {"real"}, {{"to", int64_t(1)}});
    writer.node("MatMul", {"real", "head.weight"}, {"logits"});
    writer.output("logits", ElementType::F32, {"batch", "sequence", int64_t(3)});
    TemporaryFolder folder;
    ImportOptions options;
    options.batch = 1;
    options.seq = 3;
    Imported imported = test::import(folder.write("model.onnx", writer.bytes()), options);
    ASSERT_TRUE(imported.module) << imported.errors;
    std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2});
    ASSERT_TRUE(logits);
    for (int64_t token = 0; token < 3; ++token)
      for (int64_t i = 0; i < count; ++i)
        EXPECT_EQ(logits->reals[3 * token + i], c.places[count * token + i]) << c.op << " " << token << " " << i;
  }
}

TEST(OnnxBadInput, NamesAndOpsets) {
  TemporaryFolder folder;
  OnnxWriter twice = smallModel();
  twice.floats("head", {4, 7}, std::vector<float>(28, 1.0f));
  twice.node("MatMul", {"x", "head"}, {"logits"});
  refused(folder.write("twice.onnx", twice.bytes()), {"two initializers of the name 'head'"});
  for (int64_t opset : {int64_t(-5), int64_t(0), int64_t(1) << 62}) {
    OnnxWriter writer(opset);
    writer.input("input_ids", ElementType::I64, {"batch", "sequence"});
    writer.floats("model.embed_tokens.weight", {7, 4}, std::vector<float>(28));
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"logits"});
    writer.output("logits", ElementType::F32, {});
    refused(folder.write("opset.onnx", writer.bytes()), {"opset " + std::to_string(opset), "ztc knows 1 to"});
  }
}

/// Whatever a graph computes from constants: one message that names the node.
TEST(OnnxBadInput, ConstantsThatDoNotFit) {
  struct Case {
    std::string message;
    std::function<void(OnnxWriter &)> build;
  };
  auto integers = [](OnnxWriter &w, const std::string &name, std::vector<int64_t> values) {
    w.integers(name, {int64_t(values.size())}, values);
  };
  const std::vector<Case> cases = {
      {"add up",
       [&](OnnxWriter &w) {
         integers(w, "a", {1, 2, 3, 4}), integers(w, "sizes", {2, 5});
         w.node("Split", {"a", "sizes"}, {"made", "rest"}, {{"axis", int64_t(0)}}, "", "bad");
       }},
      {"add up",
       [&](OnnxWriter &w) {
         integers(w, "a", {1, 2, 3, 4}), integers(w, "sizes", {-2, 6});
         w.node("Split", {"a", "sizes"}, {"made", "rest"}, {{"axis", int64_t(0)}}, "", "bad");
       }},
      {"another dimension",
       [&](OnnxWriter &w) {
         w.integers("a", {1, 2}, {1, 2}), w.integers("b", {1, 3}, {1, 2, 3});
         w.node("Concat", {"a", "b"}, {"made"}, {{"axis", int64_t(0)}}, "", "bad");
       }},
      {"needs one",
       [&](OnnxWriter &w) {
         integers(w, "none", {}), w.integers("n", {}, {3}), w.integers("one", {}, {1});
         w.node("Range", {"none", "n", "one"}, {"made"}, {}, "", "bad");
       }},
      {"endless",
       [&](OnnxWriter &w) {
         w.integers("a", {}, {INT64_MIN}), w.integers("b", {}, {INT64_MAX}), w.integers("one", {}, {1});
         w.node("Range", {"a", "b", "one"}, {"made"}, {}, "", "bad");
       }},
      {"do not fit",
       [&](OnnxWriter &w) {
         w.integers("a", {2}, {1, 2}), w.integers("where", {1, 3}, {0, 0, 0}), w.integers("updates", {1}, {7});
         w.node("ScatterND", {"a", "where", "updates"}, {"made"}, {}, "", "bad");
       }},
      {"do not fit",
       [&](OnnxWriter &w) {
         w.integers("a", {2}, {1, 2}), w.integers("where", {1, 2}, {0, 0});
         w.node("GatherElements", {"a", "where"}, {"made"}, {}, "", "bad");
       }},
      {"needs one",
       [&](OnnxWriter &w) {
         integers(w, "a", {1, 2}), integers(w, "none", {});
         w.node("CumSum", {"a", "none"}, {"made"}, {}, "", "bad");
       }},
      {"axis 0 is outside",
       [&](OnnxWriter &w) {
         w.integers("a", {}, {1}), w.integers("axis", {}, {0});
         w.node("CumSum", {"a", "axis"}, {"made"}, {}, "", "bad");
       }},
      {"different lengths",
       [&](OnnxWriter &w) {
         integers(w, "a", {1, 2}), integers(w, "s", {0}), integers(w, "e", {1, 1});
         w.node("Slice", {"a", "s", "e"}, {"made"}, {}, "", "bad");
       }},
      {"impossible size",
       [&](OnnxWriter &w) {
         integers(w, "a", {1, 2}), integers(w, "r", {INT64_MAX});
         w.node("Tile", {"a", "r"}, {"made"}, {}, "", "bad");
       }},
      {"MiB that ztc takes",
       [&](OnnxWriter &w) {
         integers(w, "huge", {int64_t(1) << 40});
         w.node("ConstantOfShape", {"huge"}, {"zeros"}, {}, "", "bad");
         w.node("Cast", {"zeros"}, {"made"}, {{"to", int64_t(7)}}, "", "cast");
       }},
      {"names an axis twice",
       [&](OnnxWriter &w) {
         w.integers("a", {1, 2}, {1, 2});
         w.node("Transpose", {"a"}, {"made"}, {{"perm", std::vector<int64_t>{0, 0}}}, "", "bad");
       }},
  };
  TemporaryFolder folder;
  for (const Case &c : cases)
    refused(folder.write("model.onnx", withComputed(c.build)), {"node 'bad'", c.message});
  // INT64_MIN mod -1 traps on x86; it is 0.
  std::string mod = withComputed([&](OnnxWriter &w) {
    integers(w, "a", {INT64_MIN, 1}), integers(w, "b", {-1, 1}), integers(w, "shape", {-1, 4});
    w.node("Mod", {"a", "b"}, {"zero"}, {});
    w.node("Add", {"zero", "shape"}, {"made"}, {});
  });
  Imported imported = test::import(folder.write("mod.onnx", mod));
  EXPECT_FALSE(imported.errors.find("(Mod)") != std::string::npos) << imported.errors;
}

/// The memory and the work of all evaluations together have a limit, not each tensor alone.
TEST(OnnxBadInput, MemoryAndWorkHaveABudget) {
  TemporaryFolder folder;
  ImportOptions options;
  options.evaluationBytes = 64 << 20;
  options.evaluationOperations = 100'000'000;
  std::string memory = withComputed([](OnnxWriter &w) {
    w.integers("large", {1}, {int64_t(1) << 20});
    std::string sum;
    for (int i = 0; i < 20; ++i) {
      std::string name = "zeros" + std::to_string(i);
      w.node("ConstantOfShape", {"large"}, {name});
      if (i)
        w.node("Add", {sum, name}, {"sum" + std::to_string(i)});
      sum = i ? "sum" + std::to_string(i) : name;
    }
    w.node("Cast", {sum}, {"made"}, {{"to", int64_t(7)}});
  });
  refused(folder.write("memory.onnx", memory), {"(ConstantOfShape)", "64 MiB that ztc takes to evaluate a graph"},
          options);
  std::string work = withComputed([](OnnxWriter &w) {
    w.integers("large", {2}, {512, 512});
    w.node("ConstantOfShape", {"large"}, {"zeros"});
    w.node("MatMul", {"zeros", "zeros"}, {"product"}, {}, "", "product");
    w.node("Cast", {"product"}, {"made"}, {{"to", int64_t(7)}});
  });
  refused(folder.write("work.onnx", work), {"node 'product' (MatMul)", "operations are needed"}, options);
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
