// Laying parameters into buckets, grouping and ordering do not change a number: every phase in the interpreter.
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Recompute/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Sharding/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include "tests/unit/compiler/ValueKeys.h"

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

// Sizes that are not multiples of 16, so that buckets have gaps.
constexpr const char *kModel = R"(
module attributes {graph.batch = 2 : i64, graph.seq = 3 : i64, graph.vocabulary = 7 : i64} {
  func.func @forward(%tokens: tensor<2x3xi32> {graph.role = #graph.role<tokens>},
      %embed: tensor<7x3xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"},
      %norm: tensor<3xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.norm.weight"},
      %up: tensor<5x3xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.mlp.up_proj.weight"},
      %gate: tensor<5x3xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.mlp.gate_proj.weight"},
      %down: tensor<3x5xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.mlp.down_proj.weight"})
      -> (tensor<2x3x7xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    %flat = graph.reshape %tokens : tensor<2x3xi32> -> tensor<6xi32>
    %x = graph.embedding %embed, %flat : tensor<7x3xf32>, tensor<6xi32> -> tensor<6x3xf32>
    %n = graph.rms_norm %x, %norm, 1.0e-5 : tensor<6x3xf32>, tensor<3xf32>
    %g = graph.matmul %n, %gate {transpose_b} : tensor<6x3xf32>, tensor<5x3xf32> -> tensor<6x5xf32>
    %u = graph.matmul %n, %up {transpose_b} : tensor<6x3xf32>, tensor<5x3xf32> -> tensor<6x5xf32>
    %s = graph.swiglu %g, %u : tensor<6x5xf32>
    %d = graph.matmul %s, %down {transpose_b} : tensor<6x5xf32>, tensor<3x5xf32> -> tensor<6x3xf32>
    %h = graph.add %x, %d : tensor<6x3xf32>
    %y = graph.matmul %h, %embed {transpose_b} : tensor<6x3xf32>, tensor<7x3xf32> -> tensor<6x7xf32>
    %logits = graph.reshape %y : tensor<6x7xf32> -> tensor<2x3x7xf32>
    return %logits : tensor<2x3x7xf32>
  }
})";

/// Values by key; buckets are taken apart, so that all phases speak of single parameters.
using Named = std::map<std::string, Tensor>;

class Phases : public ::testing::Test {
protected:
  GraphContext context;
  OwningOpRef<ModuleOp> module;
  InterpreterOptions options;
  std::mt19937_64 generator{5};
  Named inputs;

  void SetUp() override {
    context.context.loadDialect<dist::DistDialect>();
    module = context.parse(kModel);
    run([](OpPassManager &pm) { populateAutodiffPipeline(pm); });
    for (auto function : module->getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        Tensor value = randomTensor(cast<RankedTensorType>(function.getArgumentTypes()[i]), generator, 6);
        if (graph::argumentKind(function, i) == "exp_avg_sq")
          for (double &real : value.reals)
            real *= real;
        if (graph::roleOf(function, i) == graph::Role::Step)
          for (double &real : value.reals)
            real = 0.25 + 0.5 / (1 + std::abs(real));
        inputs.try_emplace(argumentKey(function, i), value);
      }
  }

  void run(llvm::function_ref<void(OpPassManager &)> populate) {
    PassManager pm(&context.context);
    populate(pm);
    ASSERT_TRUE(succeeded(pm.run(*module)));
  }

  template <typename Visit> void forEachMember(FlatSymbolRefAttr bucket, Visit visit) {
    auto op = module->lookupSymbol<dist::BucketOp>(bucket.getAttr());
    ASSERT_TRUE(op);
    for (mlir::Attribute entry : op.getParameters())
      visit(dist::readBucketParameter(entry));
  }

  Named interpretFunction(StringRef name) {
    auto function = module->lookupSymbol<func::FuncOp>(name);
    Tensors arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::string key = argumentKey(function, i);
      Tensor value(cast<RankedTensorType>(function.getArgumentTypes()[i]));
      if (auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket)) {
        forEachMember(bucket, [&](const dist::BucketParameter &member) {
          // A microstep's accumulators hold nothing yet.
          if (name == "microstep" && key == "gradient")
            return;
          const Tensor &part = inputs.at(key + " " + member.name.str());
          std::copy(part.reals.begin(), part.reals.end(), value.reals.begin() + member.offset);
        });
      } else {
        value = inputs.at(key);
      }
      arguments.push_back(value);
    }
    auto results = interpret(function, arguments, options);
    EXPECT_TRUE(succeeded(results));
    Named named;
    for (unsigned i = 0; succeeded(results) && i < function.getNumResults(); ++i) {
      std::string key = resultKey(function, i);
      auto bucket = function.getResultAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket);
      if (!bucket) {
        named[key] = (*results)[i];
        continue;
      }
      forEachMember(bucket, [&](const dist::BucketParameter &member) {
        Tensor part(RankedTensorType::get(member.shape, (*results)[i].elementType));
        auto from = (*results)[i].reals.begin() + member.offset;
        part.reals.assign(from, from + part.count());
        named[key + " " + member.name.str()] = part;
      });
    }
    return named;
  }

  /// All runs in double: a decomposition may only sum in another order.
  void expectSame(const Named &expected, const Named &actual, StringRef phase) {
    ASSERT_EQ(expected.size(), actual.size()) << phase.str();
    for (const auto &[key, value] : expected) {
      ASSERT_TRUE(actual.count(key)) << phase.str() << ": " << key;
      EXPECT_EQ(value.integers, actual.at(key).integers) << phase.str() << ": " << key;
      EXPECT_LT(relativeError(actual.at(key), value), 1e-10) << phase.str() << ": " << key;
    }
  }
};

TEST_F(Phases, KeepEveryNumber) {
  Named microstep = interpretFunction("microstep"), update = interpretFunction("update"),
        eval = interpretFunction("eval");
  EXPECT_EQ(microstep.size(), 6u);
  EXPECT_EQ(update.size(), 3 * 5u + 2);
  auto check = [&](StringRef phase) {
    expectSame(microstep, interpretFunction("microstep"), phase);
    expectSame(update, interpretFunction("update"), phase);
    expectSame(eval, interpretFunction("eval"), phase);
  };
  run([](OpPassManager &pm) {
    populateShardPipeline(pm);
    pm.addPass(createVerifyShard());
  });
  check("shard");
  run([](OpPassManager &pm) {
    populateRecomputePipeline(pm, {"cheap", {}});
    pm.addPass(createVerifyShard());
    pm.addPass(createVerifyRecompute());
  });
  check("recompute");
  run([](OpPassManager &pm) {
    populateFusePipeline(pm);
    pm.addPass(createVerifyFuse());
  });
  check("fuse");
  run([](OpPassManager &pm) {
    populateSchedulePipeline(pm);
    pm.addPass(createVerifySchedule());
  });
  check("schedule");
}

} // namespace
