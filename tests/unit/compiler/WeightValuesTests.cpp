// Forms applied: what a graph's tensor holds, computed from a checkpoint's tensors; a stranger's way of writing them.
#include "CheckpointValues.h"
#include "frontends/onnx/WeightValues.h"
#include "runtime/Core/FloatTypes.h"
#include <limits>

using namespace ztc;
using namespace ztc::test;
using namespace ztc::importer;

namespace {

/// Tensors by name, as a checkpoint has them.
class Checkpoint {
public:
  void add(const std::string &name, ztc::importer::Shape shape, std::vector<float> values) {
    TensorView view{name, {}, ElementType::F32, shape};
    elements.push_back(std::move(values));
    view.bytes = {reinterpret_cast<const char *>(elements.back().data()), elements.back().size() * sizeof(float)};
    views[name] = view;
  }
  std::vector<float> of(const WeightForm &form, ztc::importer::Shape shape) const {
    StatusOr<std::vector<float>> found = tryOf(form, shape);
    EXPECT_TRUE(found.isOk()) << found.status().message();
    return found.isOk() ? *found : std::vector<float>();
  }
  StatusOr<std::vector<float>> tryOf(const WeightForm &form, ztc::importer::Shape shape) const {
    return valuesOf(form, shape, [&](llvm::StringRef name) {
      auto found = views.find(name);
      return found == views.end() ? nullptr : &found->second;
    });
  }

private:
  std::deque<std::vector<float>> elements;
  llvm::StringMap<TensorView> views;
};

WeightForm joined(std::vector<std::string> tensors, int64_t axis, bool isTransposed) {
  WeightForm form;
  form.axis = axis;
  form.isTransposed = isTransposed;
  for (const std::string &tensor : tensors)
    form.pieces.push_back({tensor});
  return form;
}

TEST(WeightValues, OneTensorInItsOrientation) {
  Checkpoint checkpoint;
  std::vector<float> w = values(6, 1);
  checkpoint.add("w", {2, 3}, w);
  EXPECT_EQ(checkpoint.of(WeightForm::of("w", false), {2, 3}), w);
  EXPECT_EQ(checkpoint.of(WeightForm::of("w", true), {3, 2}), transposed(w, 2, 3));
  EXPECT_EQ(checkpoint.of(WeightForm::of("w", false), {1, 2, 3}), w); // in other dimensions
}

TEST(WeightValues, WhatIsFoldedIsFoldedAgain) {
  Checkpoint checkpoint;
  std::vector<float> w = values(5, 2);
  checkpoint.add("w", {5}, w);
  WeightForm form = WeightForm::of("w", false);
  form.shift = 1;
  EXPECT_EQ(checkpoint.of(form, {5}), mapped(w, [](float x) { return 1 + x; }));
  form = WeightForm::of("w", false);
  form.scale = 0.125;
  EXPECT_EQ(checkpoint.of(form, {5}), mapped(w, [](float x) { return 0.125f * x; }));
}

TEST(WeightValues, PiecesOneAfterTheOther) {
  Checkpoint checkpoint;
  checkpoint.add("q", {2, 2}, {1, 2, 3, 4});
  checkpoint.add("k", {1, 2}, {5, 6});
  checkpoint.add("b", {2}, {7, 8});
  checkpoint.add("c", {1}, {9});
  EXPECT_EQ(checkpoint.of(joined({"q", "k"}, 0, false), {3, 2}), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(checkpoint.of(joined({"q", "k"}, 0, true), {2, 3}), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(checkpoint.of(joined({"b", "c"}, 0, false), {3}), (std::vector<float>{7, 8, 9}));
  checkpoint.add("v", {2, 1}, {10, 11});
  EXPECT_EQ(checkpoint.of(joined({"q", "v"}, 1, false), {2, 3}), (std::vector<float>{1, 2, 10, 3, 4, 11}));
}

TEST(WeightValues, PartsAndMatrices) {
  Checkpoint checkpoint;
  checkpoint.add("all", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  checkpoint.add("stack", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  WeightForm part;
  part.pieces.push_back({"all", 1, 2, true});
  EXPECT_EQ(checkpoint.of(part, {2, 2}), (std::vector<float>{3, 4, 5, 6}));
  part.axis = 1;
  part.pieces[0] = {"all", 1, 1, true};
  EXPECT_EQ(checkpoint.of(part, {4, 1}), (std::vector<float>{2, 4, 6, 8}));
  WeightForm second;
  second.pieces.push_back({"stack", 0, 0, false, 1});
  second.isTransposed = true;
  EXPECT_EQ(checkpoint.of(second, {2, 2}), (std::vector<float>{5, 7, 6, 8}));
  // A stack of single matrices, each transposed; and one whose matrices are transposed in place.
  checkpoint.add("x", {1, 2}, {1, 2});
  checkpoint.add("y", {1, 2}, {3, 4});
  WeightForm stack = joined({"x", "y"}, 0, true);
  stack.matrices = 2;
  EXPECT_EQ(checkpoint.of(stack, {2, 2, 1}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(checkpoint.of(WeightForm::of("stack", true), {2, 2, 2}), (std::vector<float>{1, 3, 2, 4, 5, 7, 6, 8}));
}

TEST(WeightValues, WhatDoesNotFitIsAnError) {
  Checkpoint checkpoint;
  checkpoint.add("w", {2, 2}, {1, 2, 3, 4});
  checkpoint.add("n", {1, 3}, {1, 2, 3});
  EXPECT_NE(checkpoint.tryOf(WeightForm::of("lost", false), {2, 2}).status().message().find("'lost' is missing"),
            std::string::npos);
  EXPECT_FALSE(checkpoint.tryOf(WeightForm::of("w", false), {2, 3}).isOk());
  EXPECT_FALSE(checkpoint.tryOf(joined({"w", "n"}, 0, false), {3, 2}).isOk());
  EXPECT_FALSE(checkpoint.tryOf(joined({"w", "w"}, 0, false), {3, 2}).isOk());
  WeightForm part;
  part.pieces.push_back({"w", 1, 2, true});
  EXPECT_FALSE(checkpoint.tryOf(part, {2, 2}).isOk());
  part.pieces[0] = {"w", 0, 0, false, 3};
  EXPECT_FALSE(checkpoint.tryOf(part, {2, 2}).isOk());
}

TEST(WeightValues, TypesOfTheFile) {
  std::vector<float> x{1, -0.3f, 65504};
  EXPECT_EQ(encoded(x, ElementType::F32)->size(), 12u);
  EXPECT_EQ(encoded(x, ElementType::F64)->size(), 24u);
  std::string half = *encoded(x, ElementType::F16), narrow = *encoded(x, ElementType::BF16);
  uint16_t bits;
  std::memcpy(&bits, half.data() + 2, 2);
  EXPECT_EQ(bits, toF16(-0.3f));
  std::memcpy(&bits, narrow.data() + 2, 2);
  EXPECT_EQ(bits, toBf16(-0.3f));
  x[2] = 70000;
  EXPECT_FALSE(encoded(x, ElementType::F16).isOk());
  x[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(encoded(x, ElementType::F32).isOk());
}

} // namespace
