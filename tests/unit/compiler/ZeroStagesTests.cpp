// ZeRO in the interpreter: one optimizer step on W ranks, each a thread, at every stage gives the gradients, the norm
// and the weights of the module without shards on the global batch.
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Reference/Rendezvous.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Precision/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Sharding/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Format/Shards.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include "tests/unit/compiler/LlamaText.h"

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace ztc::test::stages {
namespace {

/// Tensors by "kind name": a parameter's gradient, new value or moments, or what has no name.
using Named = std::map<std::string, Tensor>;

std::string stringAttr(func::FuncOp function, unsigned result, StringRef name) {
  auto attribute = function.getResultAttrOfType<StringAttr>(result, name);
  return attribute ? attribute.str() : "";
}

/// `wq0` is called `layers.0.wq`: what one layer has becomes one bucket.
void nameLayers(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
    StringRef name = graph::argString(forward, i, graph::kName);
    if (!llvm::isDigit(name.back()))
      continue;
    const std::string layer = name.take_back(1).str(), rest = name.drop_back(1).str();
    Builder builder(module.getContext());
    forward.setArgAttr(i, graph::kName, builder.getStringAttr("layers." + layer + "." + rest));
    forward.setArgAttr(i, graph::kLayer, builder.getI64IntegerAttr(std::stoll(layer)));
  }
}

struct Model {
  std::string name;
  bool tied;
  std::string frozen; ///< pattern
  PrecisionOptions precision = {};
  bool isNarrow() const { return precision.precision != StoragePrecision::Fp32; }
};

enum class LastPhase {
  Shard,
  Schedule, ///< groups decomposed to primitive ops, collectives as start and done
};

/// A step of a model after phase `backward`, with the values that all runs share.
class StepTest {
public:
  explicit StepTest(const Model &model) {
    if (model.isNarrow())
      interpreter.precision = Precision::F32;
    context.context.loadDialect<dist::DistDialect>();
    module = context.parse(llamaText(model.tied, false));
    nameLayers(*module);
    PassManager pm(&context.context);
    AutodiffOptions autodiff;
    autodiff.freeze = model.frozen;
    populateAutodiffPipeline(pm, autodiff);
    populatePrecisionPipeline(pm, model.precision);
    EXPECT_TRUE(succeeded(pm.run(*module)));
    std::mt19937_64 generator(7);
    for (StringRef name : {"microstep", "update"}) {
      auto function = module->lookupSymbol<func::FuncOp>(name);
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        Tensor tensor = randomTensor(cast<RankedTensorType>(function.getArgumentTypes()[i]), generator, 13);
        StringRef role = graph::argumentKind(function, i);
        if (role == "exp_avg_sq" || role == "step")
          for (double &x : tensor.reals)
            x = std::abs(x);
        if (model.isNarrow())
          for (double &x : tensor.reals)
            x = roundTo(x, tensor.elementType);
        values.try_emplace((role + " " + graph::argString(function, i, graph::kName)).str(), tensor);
      }
    }
    // The update is made. Where bits are compared nothing is clipped: the last place of the norm, which adds up by
    // tensors here and by buckets there, would be in every element.
    std::vector<double> &numbers = values.at("step ").reals;
    numbers[size_t(StepParameter::InverseNormLimit)] = 0;
    if (model.isNarrow())
      numbers[size_t(StepParameter::Clip)] = 0x1p100;
    for (StringRef role : {"tokens", "targets"})
      for (unsigned batch = 0; batch < 6; ++batch)
        batches[role.str()].push_back(randomTensor(values.at(role.str() + " ").type(), generator, 13));
    values["position "] = Tensor({2}, IntegerType::get(&context.context, 32));
    values["position "].integers = {4, 3};
    batches["targets"][1].integers[3] = -100; // ranks count different numbers of targets
  }

  /// Gradients, norm, weights and moments after one step over `batchCount` batches, without shards.
  Named whole(unsigned batchCount);
  /// The same at a ZeRO stage on `world` ranks with `accumulate` micro-steps each; every batch is used once.
  Named sharded(unsigned stage, unsigned world, unsigned accumulate, LastPhase last = LastPhase::Shard);
  /// What a function that only goes forward returns on each rank for the batch of its number, without shards and with.
  std::vector<Tensor> wholeForward(StringRef name, unsigned world);
  std::vector<Tensor> shardedForward(StringRef name, unsigned stage, unsigned world);

private:
  OwningOpRef<ModuleOp> compile(unsigned stage, LastPhase last);
  Tensors wholeArguments(func::FuncOp function, unsigned batch, const Named &gradients);
  using RankValues = std::map<std::string, std::vector<Tensor>>; ///< by "kind bucket": one tensor per rank

  Tensor fill(ModuleOp sharded, StringRef bucket, StringRef kind, RankedTensorType type, unsigned rank, unsigned world);
  std::vector<Tensors> rankArguments(func::FuncOp function, RankValues &buckets, unsigned firstBatch, unsigned world);
  void takeApart(ModuleOp sharded, StringRef kind, StringRef bucket, RankedTensorType type,
                 const std::vector<Tensor> &ranks, Named &named);

  GraphContext context;
  OwningOpRef<ModuleOp> module;
  InterpreterOptions interpreter;
  Named values; ///< by "role name"
  std::map<std::string, std::vector<Tensor>> batches;
};

Tensors StepTest::wholeArguments(func::FuncOp function, unsigned batch, const Named &gradients) {
  Tensors arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string role = graph::argumentKind(function, i).str(), name = graph::argString(function, i, graph::kName).str();
    arguments.push_back(role == "gradient"    ? gradients.at("gradient " + name)
                        : batches.count(role) ? batches[role][batch]
                                              : values.at(role + " " + name));
  }
  return arguments;
}

std::vector<Tensor> StepTest::wholeForward(StringRef name, unsigned world) {
  auto function = module->lookupSymbol<func::FuncOp>(name);
  std::vector<Tensor> results;
  for (unsigned rank = 0; rank < world; ++rank)
    results.push_back(interpret(function, wholeArguments(function, rank, {}), interpreter)->front());
  return results;
}

Named StepTest::whole(unsigned batchCount) {
  Named result;
  auto addResults = [&](func::FuncOp function, const Tensors &tensors) {
    for (auto [i, tensor] : llvm::enumerate(tensors)) {
      Tensor &sum = result[graph::resultKind(function, i).str() + " " + stringAttr(function, i, graph::kName)];
      if (sum.elementType)
        for (auto [x, y] : llvm::zip_equal(sum.reals, tensor.reals))
          x += y;
      else
        sum = tensor;
    }
  };
  auto microstep = module->lookupSymbol<func::FuncOp>("microstep"),
       update = module->lookupSymbol<func::FuncOp>("update");
  for (unsigned batch = 0; batch < batchCount; ++batch)
    addResults(microstep, *interpret(microstep, wholeArguments(microstep, batch, {}), interpreter));
  // The update takes a gradient in the type of the wire.
  for (unsigned i : graph::argumentsWithRole(update, graph::Role::Gradient)) {
    Tensor &gradient = result.at(("gradient " + graph::argString(update, i, graph::kName)).str());
    gradient.elementType = getElementTypeOrSelf(update.getArgumentTypes()[i]);
    if (interpreter.precision != Precision::F64)
      for (double &x : gradient.reals)
        x = roundTo(x, gradient.elementType);
  }
  Named gradients = result;
  addResults(update, *interpret(update, wholeArguments(update, 0, gradients), interpreter));
  return result;
}

/// A bucket's values as rank `rank` holds them; padding is zero.
Tensor StepTest::fill(ModuleOp sharded, StringRef bucket, StringRef kind, RankedTensorType type, unsigned rank,
                      unsigned world) {
  auto op = sharded.lookupSymbol<dist::BucketOp>(bucket);
  int64_t shard = int64_t(shardElements(op.getElements(), world));
  Tensor full({shard * world}, type.getElementType());
  if (kind != "gradient")
    for (mlir::Attribute entry : op.getParameters()) {
      dist::BucketParameter parameter = dist::readBucketParameter(entry);
      const Tensor &value = values.at((kind + " " + parameter.name.getValue()).str());
      llvm::copy(value.reals, full.reals.begin() + parameter.offset);
      llvm::copy(value.integers, full.integers.begin() + parameter.offset);
    }
  if (dist::isFull(type))
    return full;
  Tensor own({shard}, type.getElementType());
  if (own.isReal())
    std::copy_n(full.reals.begin() + rank * shard, shard, own.reals.begin());
  else
    std::copy_n(full.integers.begin() + rank * shard, shard, own.integers.begin());
  return own;
}

std::vector<Tensors> StepTest::rankArguments(func::FuncOp function, RankValues &buckets, unsigned firstBatch,
                                             unsigned world) {
  std::vector<Tensors> arguments(world);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef role = graph::argumentKind(function, i);
    auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket);
    for (unsigned rank = 0; rank < world; ++rank) {
      if (!bucket) {
        auto batch = batches.find(role.str());
        arguments[rank].push_back(batch == batches.end() ? values.at(role.str() + " ")
                                                         : batch->second[firstBatch + rank]);
        continue;
      }
      std::vector<Tensor> &held = buckets[(role + " " + bucket.getValue()).str()];
      if (held.size() <= rank)
        held.push_back(fill(function->getParentOfType<ModuleOp>(), bucket.getValue(), role,
                            cast<RankedTensorType>(function.getArgumentTypes()[i]), rank, world));
      arguments[rank].push_back(held[rank]);
    }
  }
  return arguments;
}

/// The parameters of a bucket, from what the ranks hold of it.
void StepTest::takeApart(ModuleOp sharded, StringRef kind, StringRef bucket, RankedTensorType type,
                         const std::vector<Tensor> &ranks, Named &named) {
  Tensor full = ranks.front();
  for (const Tensor &other : ArrayRef(ranks).drop_front()) {
    if (dist::isShard(type)) {
      llvm::append_range(full.reals, other.reals);
      llvm::append_range(full.integers, other.integers);
      continue;
    }
    EXPECT_EQ(other.reals, full.reals) << "ranks differ in " << bucket.str() << " " << kind.str();
    EXPECT_EQ(other.integers, full.integers) << "ranks differ in " << bucket.str() << " " << kind.str();
  }
  for (mlir::Attribute entry : sharded.lookupSymbol<dist::BucketOp>(bucket).getParameters()) {
    dist::BucketParameter parameter = dist::readBucketParameter(entry);
    Tensor tensor(parameter.shape, type.getElementType());
    if (tensor.isReal())
      std::copy_n(full.reals.begin() + parameter.offset, tensor.count(), tensor.reals.begin());
    else
      std::copy_n(full.integers.begin() + parameter.offset, tensor.count(), tensor.integers.begin());
    named[(kind + " " + parameter.name.getValue()).str()] = tensor;
  }
}

OwningOpRef<ModuleOp> StepTest::compile(unsigned stage, LastPhase last) {
  OwningOpRef<ModuleOp> clone = module->clone();
  PassManager pm(&context.context);
  ShardOptions options;
  options.zero = stage;
  populateShardPipeline(pm, options);
  pm.addPass(createVerifyShard());
  if (last == LastPhase::Schedule) {
    populateFusePipeline(pm);
    pm.addPass(createVerifyFuse());
    populateSchedulePipeline(pm);
    pm.addPass(createVerifySchedule());
  }
  EXPECT_TRUE(succeeded(pm.run(*clone)));
  return clone;
}

std::vector<Tensor> StepTest::shardedForward(StringRef name, unsigned stage, unsigned world) {
  OwningOpRef<ModuleOp> clone = compile(stage, LastPhase::Shard);
  auto function = clone->lookupSymbol<func::FuncOp>(name);
  RankValues buckets;
  std::vector<Tensor> results;
  auto ranks = interpretOnRanks(function, rankArguments(function, buckets, 0, world), interpreter);
  EXPECT_TRUE(succeeded(ranks));
  if (succeeded(ranks))
    for (Tensors &rank : *ranks)
      results.push_back(rank.front());
  return results;
}

Named StepTest::sharded(unsigned stage, unsigned world, unsigned accumulate, LastPhase last) {
  OwningOpRef<ModuleOp> clone = compile(stage, last);
  Named result;
  auto microstep = clone->lookupSymbol<func::FuncOp>("microstep"), update = clone->lookupSymbol<func::FuncOp>("update");
  RankValues buckets, reduced;
  for (unsigned m = 0; m < accumulate; ++m) {
    InterpreterOptions options = interpreter;
    options.lastMicrostep = m + 1 == accumulate;
    auto ranks = interpretOnRanks(microstep, rankArguments(microstep, buckets, m * world, world), options);
    if (failed(ranks)) {
      ADD_FAILURE() << "@microstep failed";
      return result;
    }
    for (unsigned i = 0; i < microstep.getNumResults(); ++i) {
      std::string kind = graph::resultKind(microstep, i).str();
      auto bucket = microstep.getResultAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket);
      for (unsigned rank = 0; rank < world; ++rank) {
        Tensor value = (*ranks)[rank][i];
        if (!bucket) {
          Tensor &sum = result[kind + " "];
          sum = sum.elementType ? sum : Tensor(value.shape, value.elementType);
          sum.reals[0] += value.reals[0];
          continue;
        }
        auto &kept = kind == "gradient" ? buckets["gradient " + bucket.getValue().str()]
                                        : reduced["gradient " + bucket.getValue().str()];
        kept.resize(world);
        kept[rank] = value;
      }
    }
  }
  for (auto &[name, tensors] : reduced)
    buckets[name] = tensors;
  for (unsigned i : graph::argumentsWithRole(update, graph::Role::GradientBucket)) {
    auto bucket = update.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket).getValue();
    takeApart(*clone, "gradient", bucket, cast<RankedTensorType>(update.getArgumentTypes()[i]),
              buckets["gradient " + bucket.str()], result);
  }
  auto ranks = interpretOnRanks(update, rankArguments(update, buckets, 0, world), interpreter);
  if (failed(ranks)) {
    ADD_FAILURE() << "@update failed";
    return result;
  }
  for (unsigned i = 0; i < update.getNumResults(); ++i) {
    std::vector<Tensor> each;
    for (const Tensors &rank : *ranks)
      each.push_back(rank[i]);
    std::string kind = graph::resultKind(update, i).str();
    if (auto bucket = update.getResultAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket))
      takeApart(*clone, kind, bucket.getValue(), cast<RankedTensorType>(update.getResultTypes()[i]), each, result);
    else
      result[kind + " "] = each.front();
  }
  return result;
}

void expectSame(const Named &actual, const Named &expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto &[name, tensor] : expected) {
    ASSERT_TRUE(actual.count(name)) << name;
    if (tolerance == 0)
      EXPECT_EQ(actual.at(name).reals, tensor.reals) << name;
    else
      EXPECT_LT(relativeError(actual.at(name), tensor), tolerance) << name;
    EXPECT_EQ(actual.at(name).integers, tensor.integers) << name;
  }
}

class ZeroStages : public testing::TestWithParam<Model> {};
class NarrowZeroStages : public testing::TestWithParam<Model> {};

TEST_P(ZeroStages, GiveTheStepOfTheWholeModel) {
  StepTest step(GetParam());
  for (unsigned accumulate : {1u, 2u})
    for (unsigned world : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << "W = " << world << ", M = " << accumulate);
      Named whole = step.whole(world * accumulate), stages[4];
      for (unsigned stage = 0; stage < 4; ++stage) {
        SCOPED_TRACE(testing::Message() << "ZeRO-" << stage);
        stages[stage] = step.sharded(stage, world, accumulate);
        expectSame(stages[stage], whole, 1e-12);
        // Stages 0 and 1 add up over micro-steps before they add over ranks, stages 2 and 3 after that.
        expectSame(stages[stage], stages[accumulate == 1 ? 0 : stage / 2 * 2], 0);
      }
    }
}

/// In bf16 and fp16 every stage sends and reads the same rounded gradients. Of one rank's only micro-step they are
/// those of the whole model, to the bit; on several each rank rounds its own before the sum.
TEST_P(NarrowZeroStages, AgreeToTheBit) {
  StepTest step(GetParam());
  const double unit = GetParam().precision.precision == StoragePrecision::Bf16 ? 0x1p-8 : 0x1p-11;
  for (unsigned accumulate : {1u, 2u})
    for (unsigned world : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << "W = " << world << ", M = " << accumulate);
      Named whole = step.whole(world * accumulate), stages[4];
      for (unsigned stage = 0; stage < 4; ++stage) {
        SCOPED_TRACE(testing::Message() << "ZeRO-" << stage);
        stages[stage] = step.sharded(stage, world, accumulate);
        for (const auto &[name, tensor] : whole)
          if (name.starts_with("gradient"))
            EXPECT_LT(relativeError(stages[stage].at(name), tensor), 2 * world * accumulate * unit) << name;
        // Stochastic rounding takes an element's place in its bucket, which the whole model does not have.
        if (world * accumulate == 1 && GetParam().precision.optimizerState == StateFormat::Fp32) {
          Named expected = whole;
          EXPECT_LT(relativeError(stages[stage].at("gradient_norm "), whole.at("gradient_norm ")), 0x1p-22);
          expected.at("gradient_norm ") = stages[stage].at("gradient_norm ");
          expectSame(stages[stage], expected, 0);
        }
        // With several micro-steps stages 2 and 3 send each one's gradient, 0 and 1 the sum.
        expectSame(stages[stage], stages[accumulate == 1 ? 0 : stage / 2 * 2], 0);
      }
    }
}

TEST_P(NarrowZeroStages, AgreeToTheBitWhenScheduled) {
  StepTest step(GetParam());
  Named first;
  for (unsigned stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(testing::Message() << "ZeRO-" << stage);
    Named scheduled = step.sharded(stage, 3, 1, LastPhase::Schedule);
    first = stage == 0 ? scheduled : first;
    expectSame(scheduled, first, 0);
  }
}

/// Groups, the order of steps and collectives apart from their results change nothing; and the stages still agree.
TEST_P(ZeroStages, GiveItWhenScheduled) {
  StepTest step(GetParam());
  Named whole = step.whole(3), first;
  for (unsigned stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(testing::Message() << "ZeRO-" << stage);
    Named scheduled = step.sharded(stage, 3, 1, LastPhase::Schedule);
    expectSame(scheduled, whole, 1e-10);
    first = stage == 0 ? scheduled : first;
    expectSame(scheduled, first, 0);
  }
}

TEST_P(ZeroStages, EvaluateAndGenerateAsTheWholeModel) {
  StepTest step(GetParam());
  for (unsigned stage : {0u, 3u})
    for (StringRef function : {"eval", "generate"}) {
      SCOPED_TRACE(testing::Message() << "@" << function.str() << ", ZeRO-" << stage);
      std::vector<Tensor> whole = step.wholeForward(function, 3), sharded = step.shardedForward(function, stage, 3);
      ASSERT_EQ(sharded.size(), whole.size());
      for (unsigned rank = 0; rank < 3; ++rank)
        EXPECT_EQ(sharded[rank].reals, whole[rank].reals) << "rank " << rank;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, ZeroStages,
                         testing::Values(Model{"untied", false, ""}, Model{"tied", true, ""},
                                         Model{"frozen", false, "^layers\\.0\\.w|^embed$"},
                                         Model{"tiedAndFrozen", true, "^norm$|\\.lm$"}),
                         [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Models, NarrowZeroStages,
    testing::Values(
        Model{"bf16", false, "", {StoragePrecision::Bf16, StateFormat::Fp32, {}}},
        Model{"bf16Tied", true, "", {StoragePrecision::Bf16, StateFormat::Fp32, {}}},
        Model{"bf16States", false, "^layers\\.0\\.w|^embed$", {StoragePrecision::Bf16, StateFormat::Bf16, {}}},
        Model{"bf16Kept",
              false,
              "",
              {StoragePrecision::Bf16, StateFormat::Fp32, {"^layers\\.1\\.", "^layers\\.0\\.wq$"}}},
        Model{"fp16", false, "", {StoragePrecision::Fp16, StateFormat::Fp32, {}}},
        Model{"fp16Tied", true, "", {StoragePrecision::Fp16, StateFormat::Fp32, {}}}),
    [](const auto &info) { return info.param.name; });

TEST(ZeroStages, AFailingRankKeepsNobodyWaiting) {
  GraphContext context;
  context.context.loadDialect<dist::DistDialect>();
  auto module = context.parse(R"(
    func.func @f(%index: tensor<1xi32>, %table: tensor<2x4xf32>) -> tensor<f32> {
      %rows = graph.embedding %table, %index : tensor<2x4xf32>, tensor<1xi32> -> tensor<1x4xf32>
      %flat = graph.reshape %rows : tensor<1x4xf32> -> tensor<4xf32>
      %sum = graph.sum_squares %flat : tensor<4xf32> -> tensor<f32>
      %all = dist.all_reduce %sum axis "data" : tensor<f32>
      return %all : tensor<f32>
    })");
  auto function = module->lookupSymbol<func::FuncOp>("f");
  std::mt19937_64 generator(1);
  auto type = [&](unsigned i) { return cast<RankedTensorType>(function.getArgumentTypes()[i]); };
  std::vector<Tensors> arguments(3);
  for (Tensors &rank : arguments)
    rank = {randomTensor(type(0), generator), randomTensor(type(1), generator)};
  EXPECT_TRUE(succeeded(interpretOnRanks(function, arguments)));
  arguments[1][0].integers[0] = 7;
  ScopedDiagnosticHandler handler(&context.context, [](Diagnostic &) { return success(); });
  EXPECT_TRUE(failed(interpretOnRanks(function, arguments)));
}

} // namespace
} // namespace ztc::test::stages
