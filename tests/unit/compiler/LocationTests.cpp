// Locations are names, scopeOf and layerOf read them; and they are only names: a plan without them is the same plan.
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/TransformerBlocks.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Driver/Session.h"
#include "compiler/Support/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <filesystem>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

using namespace mlir;
namespace fs = std::filesystem;

namespace {

/// A small model of a family, as a Hugging Face folder.
struct NamelessCase {
  const char *folder, *recompute;
  unsigned zero;
  bool generates;
};

ztc::driver::CompileOptions optionsOf(const NamelessCase &given) {
  ztc::driver::CompileOptions options;
  options.input = fs::path(__FILE__).parent_path().parent_path().parent_path() / "folders" / given.folder;
  options.batch = 2;
  options.seq = 16;
  options.zero = given.zero;
  options.recompute = given.recompute;
  options.generate = given.generates;
  return options;
}

/// The plan without machine code and without what it says to people: names, reasons, and the blocks in reports.
std::string planWithoutNames(const NamelessCase &given, bool isStripped) {
  ztc::driver::Session session(optionsOf(given));
  for (int phase = 0; phase <= int(ztc::Phase::Assign); ++phase) {
    EXPECT_TRUE(succeeded(session.run(ztc::Phase(phase))));
    PassManager strip(session.module()->getContext());
    strip.addPass(createStripDebugInfoPass());
    if (isStripped)
      EXPECT_TRUE(succeeded(strip.run(session.module())));
  }
  FailureOr<ztc::plan::Plan> plan = session.takePlan(/*withKernels=*/false);
  EXPECT_TRUE(succeeded(plan));
  for (auto &slot : *plan->mutable_slots()) {
    slot.clear_name();
    slot.clear_reason();
    slot.clear_layer();
  }
  for (auto &program : *plan->mutable_programs())
    for (auto &step : *program.mutable_steps()) {
      step.clear_name();
      step.clear_reason();
      step.clear_layer();
    }
  // The options are a map: without this its entries have no order.
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  EXPECT_TRUE(plan->SerializeToCodedStream(&coded));
  coded.Trim();
  return bytes;
}

class NamelessPlan : public ::testing::TestWithParam<NamelessCase> {};

} // namespace

TEST_P(NamelessPlan, IsThePlan) {
  const std::string named = planWithoutNames(GetParam(), false), nameless = planWithoutNames(GetParam(), true);
  EXPECT_GT(named.size(), 1000u);
  EXPECT_TRUE(named == nameless) << named.size() << " bytes with locations, " << nameless.size() << " without";
}

INSTANTIATE_TEST_SUITE_P(Folders, NamelessPlan,
                         ::testing::Values(NamelessCase{"mistral", "layer", 3, false},
                                           NamelessCase{"gpt-neox", "layer", 0, true},
                                           NamelessCase{"gemma2", "cheap", 2, false},
                                           NamelessCase{"mixtral", "layer", 1, false}),
                         [](const auto &info) {
                           std::string name = info.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// The blocks that dataflow gives are those that the exporter's module paths name.
TEST(TransformerBlocks, AreThoseOfTheModulePaths) {
  for (const char *folder : {"mistral", "gpt-neox", "gemma2", "mixtral", "gpt2", "olmo2", "cohere2", "bloom"}) {
    ztc::driver::Session session(optionsOf({folder, "none", 0, false}));
    ASSERT_TRUE(succeeded(session.run(ztc::Phase::Shard)));
    func::FuncOp microstep = ztc::graph::findEntry(session.module(), ztc::graph::Entry::Microstep);
    Operation *end = ztc::lossOpOf(microstep);
    const ztc::TransformerBlocks blocks(microstep, end);
    EXPECT_GE(blocks.last(), 1) << folder;
    for (Operation &op : microstep.getBody().front()) {
      if (&op == end)
        break;
      // What the exporter puts elsewhere: tables and masks, which are made of constants.
      if (isa<ztc::LibraryCallOpInterface>(op) || isa<ztc::graph::RmsNormOp, ztc::graph::RopeOp>(op))
        EXPECT_EQ(blocks.layerOf(&op), ztc::layerOf(op.getLoc())) << folder << ": " << ztc::scopeOf(op.getLoc());
    }
  }
}

TEST(Location, LayerIsTheNumberAfterAListOfBlocks) {
  EXPECT_EQ(ztc::layerOf("model.layers.3.self_attn.q_proj"), 3);
  EXPECT_EQ(ztc::layerOf("layers.12"), 12);
  EXPECT_EQ(ztc::layerOf("transformer.h.7.mlp"), 7);
  EXPECT_EQ(ztc::layerOf("transformer.blocks.2.ffn"), 2);
  EXPECT_EQ(ztc::layerOf("encoder.layer.1"), 1);
  EXPECT_EQ(ztc::layerOf("/model/layers.4/mlp/Mul"), 4);
  EXPECT_EQ(ztc::layerOf("model.embed_tokens.weight"), -1);
  EXPECT_EQ(ztc::layerOf("model.layers.norm"), -1);
  EXPECT_EQ(ztc::layerOf("sublayers.3"), -1);
  EXPECT_EQ(ztc::layerOf(""), -1);
}

TEST(Location, ScopeIsTheFirstNameOfALocation) {
  MLIRContext context;
  Location unknown = UnknownLoc::get(&context), file = FileLineColLoc::get(&context, "model.onnx", 1, 2);
  Location block = NameLoc::get(StringAttr::get(&context, "model.layers.5.mlp"), file);
  EXPECT_EQ(ztc::scopeOf(unknown), "");
  EXPECT_EQ(ztc::scopeOf(file), "");
  EXPECT_EQ(ztc::scopeOf(block), "model.layers.5.mlp");
  EXPECT_EQ(ztc::scopeOf(FusedLoc::get(&context, {unknown, block})), "model.layers.5.mlp");
  EXPECT_EQ(ztc::scopeOf(CallSiteLoc::get(block, file)), "model.layers.5.mlp");
  EXPECT_EQ(ztc::layerOf(FusedLoc::get(&context, {file, block})), 5);
  EXPECT_EQ(ztc::layerOf(unknown), -1);
}
