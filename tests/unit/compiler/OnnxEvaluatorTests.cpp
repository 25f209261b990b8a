// The evaluation of ONNX nodes, op by op, against values worked out by hand.
#include "OnnxHarness.h"
#include "frontends/onnx/Evaluator.h"
#include <cmath>

using namespace ztc::importer;
using namespace ztc::test;
using Values = std::vector<double>;

namespace {

/// Builds a model, reads it back and evaluates single values of it.
struct Graph {
  OnnxWriter writer;
  TemporaryFolder folder;
  std::unique_ptr<Model> model;
  Liveness liveness;
  std::string error;

  Graph() { writer.input("input_ids", ElementType::I64, {"batch", "sequence"}); }

  bool read(const std::string &outputName) {
    writer.output(outputName, ElementType::F32, {});
    model = readModel(folder.write("model.onnx", writer.bytes()), error);
    return model && findLiveness(*model, [](const Initializer &) { return false; }, liveness, error);
  }
  /// Shape and elements of `name`; the shape alone where it depends on data.
  std::optional<std::pair<Shape, Values>> evaluate(const std::string &name, Binding binding = {2, 5}) {
    if (!model && !read(name))
      return std::nullopt;
    Evaluator evaluator(*model, liveness, binding);
    const KnownValue *shape = evaluator.shapeOf(name);
    TensorRef tensor = shape ? evaluator.valueOf(name) : nullptr;
    error = evaluator.error();
    if (!shape || !error.empty())
      return std::nullopt;
    Values values;
    for (int64_t i = 0; tensor && i < tensor->count(); ++i)
      values.push_back(tensor->real(i));
    return std::make_pair(shape->shape, values);
  }
};

void expect(Graph &graph, const std::string &name, const Shape &shape, const Values &values) {
  auto result = graph.evaluate(name);
  ASSERT_TRUE(result) << graph.error;
  EXPECT_EQ(result->first, shape);
  ASSERT_EQ(result->second.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(result->second[i], values[i], 1e-6) << "element " << i;
}

TEST(OnnxEvaluator, ShapeOfDataIsKnown) {
  Graph graph;
  graph.writer.node("Shape", {"input_ids"}, {"whole"});
  graph.writer.node("Shape", {"input_ids"}, {"last"}, {{"start", int64_t(-1)}});
  graph.writer.node("Shape", {"input_ids"}, {"first"}, {{"end", int64_t(1)}});
  graph.writer.node("Concat", {"whole", "last", "first"}, {"y"}, {{"axis", int64_t(0)}});
  expect(graph, "y", {4}, {2, 5, 5, 2});
}

TEST(OnnxEvaluator, ReshapeRules) {
  Graph graph;
  graph.writer.integers("x", {2, 3, 4}, std::vector<int64_t>(24, 7));
  graph.writer.integers("target", {3}, {0, -1, 2});
  graph.writer.node("Reshape", {"x", "target"}, {"y"});
  auto result = graph.evaluate("y");
  ASSERT_TRUE(result) << graph.error;
  EXPECT_EQ(result->first, (Shape{2, 6, 2}));

  Graph zero; // with allowzero a 0 is a size
  zero.writer.integers("x", {0, 3}, {});
  zero.writer.integers("target", {2}, {3, 0});
  zero.writer.node("Reshape", {"x", "target"}, {"y"}, {{"allowzero", int64_t(1)}});
  expect(zero, "y", {3, 0}, {});

  Graph wrong;
  wrong.writer.integers("x", {4}, {1, 2, 3, 4});
  wrong.writer.integers("target", {1}, {5});
  wrong.writer.node("Reshape", {"x", "target"}, {"y"}, {}, "", "the_node");
  EXPECT_FALSE(wrong.evaluate("y"));
  EXPECT_NE(wrong.error.find("the_node"), std::string::npos) << wrong.error;
}

TEST(OnnxEvaluator, Slices) {
  Graph graph;
  graph.writer.integers("x", {5}, {10, 11, 12, 13, 14});
  graph.writer.integers("axis", {1}, {0});
  auto slice = [&](const std::string &name, int64_t start, int64_t end, int64_t step) {
    graph.writer.integers(name + "s", {1}, {start});
    graph.writer.integers(name + "e", {1}, {end});
    graph.writer.integers(name + "t", {1}, {step});
    graph.writer.node("Slice", {"x", name + "s", name + "e", "axis", name + "t"}, {name});
  };
  slice("a", 1, INT64_MAX, 2);
  slice("b", INT64_MIN, -3, 1);
  slice("c", INT64_MAX, INT64_MIN, -1);
  slice("d", 3, 1, 1);
  slice("e", -2, 0, -2);
  graph.writer.node("Concat", {"a", "b", "c", "d", "e"}, {"y"}, {{"axis", int64_t(0)}});
  expect(graph, "y", {11}, {11, 13, 10, 11, 14, 13, 12, 11, 10, 13, 11});
}

TEST(OnnxEvaluator, Lookups) {
  Graph graph;
  graph.writer.integers("x", {2, 3}, {1, 2, 3, 4, 5, 6});
  graph.writer.integers("columns", {2}, {-1, 0});
  graph.writer.node("Gather", {"x", "columns"}, {"g"}, {{"axis", int64_t(1)}});
  graph.writer.integers("pairs", {2, 2}, {1, 0, 0, -1});
  graph.writer.node("GatherND", {"x", "pairs"}, {"n"});
  graph.writer.integers("flat", {1}, {-1});
  graph.writer.node("Reshape", {"g", "flat"}, {"gf"});
  graph.writer.node("Concat", {"gf", "n"}, {"y"}, {{"axis", int64_t(0)}});
  expect(graph, "y", {6}, {3, 1, 6, 4, 4, 3});

  Graph outside;
  outside.writer.integers("x", {3}, {1, 2, 3});
  outside.writer.integers("i", {1}, {3});
  outside.writer.node("Gather", {"x", "i"}, {"y"});
  EXPECT_FALSE(outside.evaluate("y"));
}

TEST(OnnxEvaluator, RunningSumsAndTriangles) {
  Graph graph;
  graph.writer.integers("x", {2, 3}, {1, 2, 3, 4, 5, 6});
  graph.writer.integers("axis", {}, {-1});
  graph.writer.node("CumSum", {"x", "axis"}, {"a"});
  graph.writer.node("CumSum", {"x", "axis"}, {"b"}, {{"exclusive", int64_t(1)}, {"reverse", int64_t(1)}});
  graph.writer.node("Trilu", {"x"}, {"c"}, {{"upper", int64_t(0)}});
  graph.writer.node("Concat", {"a", "b", "c"}, {"y"}, {{"axis", int64_t(0)}});
  expect(graph, "y", {6, 3}, {1, 3, 6, 4, 9, 15, 5, 3, 0, 11, 6, 0, 1, 0, 0, 4, 5, 0});
}

TEST(OnnxEvaluator, ArithmeticRounds) {
  Graph graph;
  graph.writer.floats("x", {3}, {1e8f, 0.1f, -2.5f});
  graph.writer.floats("one", {}, {1});
  graph.writer.node("Add", {"x", "one"}, {"sum"});
  graph.writer.node("Cast", {"sum"}, {"y"}, {{"to", int64_t(7)}});
  expect(graph, "y", {3}, {1e8, 1, -1}); // 1e8 + 1 is 1e8 in f32; conversion goes toward zero

  Graph integers;
  integers.writer.integers("a", {4}, {7, -7, 7, -7});
  integers.writer.integers("b", {4}, {2, 2, -2, -2});
  integers.writer.node("Div", {"a", "b"}, {"q"});
  integers.writer.node("Mod", {"a", "b"}, {"r"});
  integers.writer.node("Concat", {"q", "r"}, {"y"}, {{"axis", int64_t(0)}});
  expect(integers, "y", {8}, {3, -3, -3, 3, 1, 1, -1, -1});
}

TEST(OnnxEvaluator, BroadcastWhereRangeExpand) {
  Graph graph;
  graph.writer.integers("zero", {}, {0});
  graph.writer.integers("three", {}, {3});
  graph.writer.integers("one", {}, {1});
  graph.writer.node("Range", {"zero", "three", "one"}, {"r"});
  graph.writer.integers("column", {1}, {1});
  graph.writer.node("Unsqueeze", {"r", "column"}, {"rows"});
  graph.writer.node("LessOrEqual", {"r", "rows"}, {"seen"});
  graph.writer.floats("a", {}, {0});
  graph.writer.floats("b", {}, {-1});
  graph.writer.node("Where", {"seen", "a", "b"}, {"mask"});
  graph.writer.integers("shape", {3}, {2, 1, 1});
  graph.writer.node("Expand", {"mask", "shape"}, {"y"});
  expect(graph, "y", {2, 3, 3}, {0, -1, -1, 0, 0, -1, 0, 0, 0, 0, -1, -1, 0, 0, -1, 0, 0, 0});
}

TEST(OnnxEvaluator, SplitsReductionsAndFunctions) {
  Graph graph;
  graph.writer.floats("x", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  graph.writer.integers("sizes", {2}, {1, 3});
  graph.writer.node("Split", {"x", "sizes"}, {"left", "right"}, {{"axis", int64_t(1)}});
  graph.writer.integers("last", {1}, {-1});
  graph.writer.node("ReduceMean", {"right", "last"}, {"m"});
  graph.writer.node("ReduceMax", {"left"}, {"top"}, {{"keepdims", int64_t(1)}});
  graph.writer.node("Sqrt", {"m"}, {"root"});
  graph.writer.node("Concat", {"root", "left", "top"}, {"y"}, {{"axis", int64_t(0)}});
  expect(graph, "y", {5, 1}, {std::sqrt(3.0), std::sqrt(7.0), 1, 5, 5});
}

/// A value that depends on tokens has a shape and no elements; a weight in another file is asked for only by its shape.
TEST(OnnxEvaluator, DataHasShapesOnly) {
  Graph graph;
  graph.writer.external("table", {11, 6}, "absent.bin", 0);
  graph.writer.node("Gather", {"table", "input_ids"}, {"rows"});
  graph.writer.integers("shape", {3}, {0, -1, 3});
  graph.writer.node("Reshape", {"rows", "shape"}, {"y"});
  auto result = graph.evaluate("y");
  ASSERT_TRUE(result) << graph.error;
  EXPECT_EQ(result->first, (Shape{2, 10, 3}));
  EXPECT_TRUE(result->second.empty());
}

TEST(OnnxEvaluator, OtherInputsAreBound) {
  Graph graph;
  graph.liveness.roles["input_ids"].role = InputRole::Tokens;
  graph.liveness.roles["attention_mask"].role = InputRole::AttentionMask;
  graph.liveness.roles["position_ids"].role = InputRole::Positions;
  graph.liveness.roles["past_key_values.0.key"] = {InputRole::Past, 2, ""};
  graph.writer.input("attention_mask", ElementType::I64, {"batch", "total"});
  graph.writer.input("position_ids", ElementType::I64, {"batch", "sequence"});
  graph.writer.input("past_key_values.0.key", ElementType::F32, {"batch", int64_t(2), "past", int64_t(4)});
  graph.writer.node("Add", {"attention_mask", "position_ids"}, {"sum"});
  graph.writer.node("Shape", {"past_key_values.0.key"}, {"past"});
  graph.writer.integers("flat", {1}, {-1});
  graph.writer.node("Reshape", {"sum", "flat"}, {"f"});
  graph.writer.node("Concat", {"f", "past"}, {"y"}, {{"axis", int64_t(0)}});
  expect(graph, "y", {14}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 2, 2, 0, 4});
}

TEST(OnnxEvaluator, NaNIsFoundFirst) {
  Graph graph;
  graph.writer.floats("x", {2, 4}, {1, NAN, 3, NAN, 5, 6, 5, 6});
  graph.writer.integers("three", {1}, {3});
  graph.writer.node("TopK", {"x", "three"}, {"values", "largest"});
  graph.writer.node("TopK", {"x", "three"}, {"small", "smallest"}, {{"largest", int64_t(0)}});
  graph.writer.node("ArgMax", {"x"}, {"first"}, {{"axis", int64_t(1)}});
  graph.writer.node("ArgMax", {"x"}, {"last"}, {{"axis", int64_t(1)}, {"select_last_index", int64_t(1)}});
  graph.writer.node("ArgMin", {"x"}, {"least"}, {{"axis", int64_t(1)}});
  graph.writer.node("Concat", {"largest", "smallest", "first", "last", "least"}, {"y"}, {{"axis", int64_t(1)}});
  expect(graph, "y", {2, 9}, {1, 3, 2, 1, 3, 0, 1, 3, 1, 1, 3, 0, 0, 2, 1, 1, 3, 0});
}

TEST(OnnxEvaluator, LongChainsNeedNoStack) {
  Graph graph;
  graph.writer.integers("v0", {1}, {0});
  graph.writer.integers("one", {1}, {1});
  for (int i = 0; i < 20000; ++i)
    graph.writer.node("Add", {"v" + std::to_string(i), "one"}, {"v" + std::to_string(i + 1)});
  expect(graph, "v20000", {1}, {20000});
}

} // namespace
