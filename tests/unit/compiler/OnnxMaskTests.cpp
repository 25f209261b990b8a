// Masks are what their subgraph computes: the claimed formula is held against it at several sizes.
#include "OnnxHarness.h"
#include "frontends/onnx/Masks.h"

using namespace ztc::importer;
using namespace ztc::test;

namespace {

/// A symbolic model whose value "mask" is (1, 1, S, S) from comparisons of row and column numbers.
struct MaskModel {
  OnnxWriter writer;
  TemporaryFolder folder;
  std::unique_ptr<Model> model;
  Liveness liveness;

  MaskModel() {
    writer.input("input_ids", ElementType::I64, {"batch", "sequence"});
    writer.integers("zero", {}, {0});
    writer.integers("one", {}, {1});
    writer.node("Shape", {"input_ids"}, {"length1"}, {{"start", int64_t(1)}});
    writer.node("Squeeze", {"length1"}, {"length"});
    writer.node("Range", {"zero", "length", "one"}, {"column"});
    writer.integers("last", {1}, {1});
    writer.node("Unsqueeze", {"column", "last"}, {"row"});
    writer.integers("front", {2}, {0, 1});
  }
  void additive(const std::string &visible, float hidden = -1e9f) {
    writer.floats("seen", {}, {0});
    writer.floats("unseen", {}, {hidden});
    writer.node("Where", {visible, "seen", "unseen"}, {"square"});
    writer.node("Unsqueeze", {"square", "front"}, {"mask"});
  }
  void window(int64_t length) {
    writer.node("LessOrEqual", {"column", "row"}, {"causal"});
    writer.integers("window", {}, {length});
    writer.node("Sub", {"row", "window"}, {"before"});
    writer.node("Greater", {"column", "before"}, {"near"});
    writer.node("And", {"causal", "near"}, {"visible"});
    additive("visible");
  }
  std::optional<Mask> classify(std::string &error, int64_t sequence = 600) {
    writer.output("mask", ElementType::F32, {});
    model = readModel(folder.write("model.onnx", writer.bytes()), error);
    if (!model || !findLiveness(*model, [](const Initializer &) { return false; }, liveness, error))
      return std::nullopt;
    MaskClassifier classifier(*model, liveness, {2, sequence}, /*isSymbolic=*/true);
    EXPECT_TRUE(classifier.isMask("mask"));
    EXPECT_FALSE(classifier.isMask("column"));
    return classifier.classify("mask", error);
  }
};

TEST(OnnxMask, Causal) {
  MaskModel m;
  m.writer.node("LessOrEqual", {"column", "row"}, {"visible"});
  m.additive("visible");
  std::string error;
  std::optional<Mask> mask = m.classify(error);
  ASSERT_TRUE(mask) << error;
  EXPECT_EQ(mask->describe(), "causal");
  EXPECT_EQ(mask->visible, 0);
  EXPECT_EQ(mask->hidden, -1e9f);
}

TEST(OnnxMask, ConditionMaySayWhatIsHidden) {
  MaskModel m;
  m.writer.node("Greater", {"column", "row"}, {"square"});
  m.writer.node("Unsqueeze", {"square", "front"}, {"mask"});
  std::string error;
  std::optional<Mask> mask = m.classify(error);
  ASSERT_TRUE(mask) << error;
  EXPECT_EQ(mask->describe(), "causal");
  EXPECT_EQ(mask->visible, 0);
  EXPECT_EQ(mask->hidden, 1);
}

TEST(OnnxMask, EverythingVisible) {
  MaskModel m;
  m.writer.node("GreaterOrEqual", {"column", "zero"}, {"all"});
  m.writer.node("Or", {"all", "all"}, {"any"});
  m.writer.node("LessOrEqual", {"column", "row"}, {"causal"});
  m.writer.node("Or", {"any", "causal"}, {"visible"});
  m.additive("visible");
  std::string error;
  std::optional<Mask> mask = m.classify(error);
  ASSERT_TRUE(mask) << error;
  EXPECT_EQ(mask->describe(), "no mask");
}

TEST(OnnxMask, SlidingWindow) {
  for (int64_t length : {2, 5, 40, 512}) { // also beyond the usual small sizes
    MaskModel m;
    m.window(length);
    std::string error;
    std::optional<Mask> mask = m.classify(error);
    ASSERT_TRUE(mask) << error;
    EXPECT_TRUE(mask->causal);
    EXPECT_EQ(mask->window, length);
  }
}

TEST(OnnxMask, WindowThatNeverEndsIsCausal) {
  MaskModel m;
  m.window(4096);
  std::string error;
  std::optional<Mask> mask = m.classify(error, 600);
  ASSERT_TRUE(mask) << error;
  EXPECT_EQ(mask->describe(), "causal");
}

TEST(OnnxMask, UnknownPatternIsShown) {
  MaskModel m;
  m.writer.node("GreaterOrEqual", {"column", "row"}, {"visible"});
  m.additive("visible");
  std::string error;
  EXPECT_FALSE(m.classify(error));
  EXPECT_NE(error.find("####\n  .###\n  ..##\n  ...#"), std::string::npos) << error;
}

TEST(OnnxMask, StrictlyCausalIsUnknown) {
  MaskModel m;
  m.writer.node("Less", {"column", "row"}, {"visible"});
  m.additive("visible");
  std::string error;
  EXPECT_FALSE(m.classify(error));
  EXPECT_NE(error.find("....\n  #...\n  ##..\n  ###."), std::string::npos) << error;
}

TEST(OnnxMask, ThreeValuesAreUnknown) {
  MaskModel m;
  m.writer.node("Sub", {"column", "row"}, {"distance"});
  m.writer.node("Cast", {"distance"}, {"square"}, {{"to", int64_t(1)}});
  m.writer.node("Unsqueeze", {"square", "front"}, {"mask"});
  std::string error;
  EXPECT_FALSE(m.classify(error));
  EXPECT_NE(error.find("more than two values"), std::string::npos) << error;
}

} // namespace
