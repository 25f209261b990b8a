// Phases `shard` and `fuse` in the interpreter: buckets change no number, groups and decompositions change none beyond
// rounding.
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Sharding/Passes.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include "tests/unit/compiler/LlamaText.h"

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

/// Values of parameters, gradients or states by checkpoint name.
using Named = std::map<std::string, Tensor>;

/// A parameter of a bucket.
struct Place {
  std::string name;
  SmallVector<int64_t> shape;
  int64_t offset, count;
};

SmallVector<Place> placesOf(ModuleOp module, StringRef bucket) {
  SmallVector<Place> places;
  for (DictionaryAttr entry :
       module.lookupSymbol<dist::BucketOp>(bucket).getParameters().getAsRange<DictionaryAttr>()) {
    Place place{entry.getAs<StringAttr>("name").str(), {}, entry.getAs<IntegerAttr>("offset").getInt(), 1};
    for (int64_t size : entry.getAs<DenseI64ArrayAttr>("shape").asArrayRef()) {
      place.shape.push_back(size);
      place.count *= size;
    }
    places.push_back(place);
  }
  return places;
}

/// The arguments of a function, plain or in buckets, from values by role and name. Accumulators start with zeros.
Tensors argumentsFor(func::FuncOp function, std::map<std::string, Named> &values) {
  auto module = function->getParentOfType<ModuleOp>();
  Tensors arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string role = graph::argumentKind(function, i).str();
    Tensor tensor(cast<RankedTensorType>(function.getArgumentTypes()[i]));
    if (auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket)) {
      if (role != "gradient" || function.getName() == "update")
        for (const Place &place : placesOf(module, bucket.getValue()))
          llvm::copy(values[role].at(place.name).reals, tensor.reals.begin() + place.offset);
    } else {
      Tensor value = values[role].at(graph::argString(function, i, graph::kName).str());
      tensor.reals = value.reals;
      tensor.integers = value.integers;
    }
    arguments.push_back(tensor);
  }
  return arguments;
}

/// The results by "kind name", buckets taken apart.
Named resultsOf(func::FuncOp function, const Tensors &results) {
  auto module = function->getParentOfType<ModuleOp>();
  Named named;
  for (auto [i, tensor] : llvm::enumerate(results)) {
    std::string kind = graph::resultKind(function, i).str();
    auto bucket = function.getResultAttrOfType<FlatSymbolRefAttr>(i, graph::kBucket);
    if (!bucket) {
      auto name = function.getResultAttrOfType<StringAttr>(i, graph::kName);
      named[kind + " " + (name ? name.str() : "")] = tensor;
      continue;
    }
    for (const Place &place : placesOf(module, bucket.getValue())) {
      Tensor part(place.shape, tensor.elementType);
      std::copy_n(tensor.reals.begin() + place.offset, place.count, part.reals.begin());
      named[kind + " " + place.name] = part;
    }
  }
  return named;
}

/// Random values for every argument of the plain functions.
std::map<std::string, Named> randomValues(ModuleOp module) {
  std::mt19937_64 generator(21);
  std::map<std::string, Named> values;
  for (StringRef name : {"microstep", "update"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Tensor tensor = randomTensor(cast<RankedTensorType>(function.getArgumentTypes()[i]), generator, 13);
      std::string role = graph::argumentKind(function, i).str();
      if (role == "exp_avg_sq" || role == "step")
        for (double &x : tensor.reals)
          x = std::abs(x);
      values[role].try_emplace(graph::argString(function, i, graph::kName).str(), tensor);
    }
  }
  return values;
}

Named run(ModuleOp module, StringRef function, std::map<std::string, Named> &values) {
  auto op = module.lookupSymbol<func::FuncOp>(function);
  auto results = interpret(op, argumentsFor(op, values));
  EXPECT_TRUE(succeeded(results)) << function.str();
  return succeeded(results) ? resultsOf(op, *results) : Named();
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

TEST(Buckets, ShardAndFuseChangeNoNumbers) {
  for (bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    GraphContext context;
    context.context.loadDialect<dist::DistDialect>();
    auto module = context.parse(llamaText(tied, false));
    ASSERT_TRUE(module);
    auto runPipeline = [&](auto populate) {
      PassManager pm(&context.context);
      populate(pm);
      return succeeded(pm.run(*module));
    };
    ASSERT_TRUE(runPipeline([](PassManager &pm) { populateAutodiffPipeline(pm); }));
    std::map<std::string, Named> values = randomValues(*module);
    Named microstep = run(*module, "microstep", values), update = run(*module, "update", values);
    Named eval = run(*module, "eval", values), generate;
    ASSERT_FALSE(microstep.empty() || update.empty() || eval.empty());

    ASSERT_TRUE(runPipeline([](PassManager &pm) { pm.addPass(createFormBuckets()); }));
    expectSame(run(*module, "microstep", values), microstep, 0);
    expectSame(run(*module, "eval", values), eval, 0);
    // The norm is summed in another order.
    expectSame(run(*module, "update", values), update, 1e-12);

    auto products = [&] {
      auto ops = module->lookupSymbol<func::FuncOp>("microstep").getOps<graph::MatmulOp>();
      return std::distance(ops.begin(), ops.end());
    };
    auto apart = products();
    ASSERT_TRUE(runPipeline([](PassManager &pm) { pm.addPass(createMergeProducts()); }));
    EXPECT_LT(products(), apart);
    // Forward nothing changes; a cotangent is one sum in place of a sum of sums.
    expectSame(run(*module, "eval", values), eval, 0);
    expectSame(run(*module, "microstep", values), microstep, 1e-12);

    ASSERT_TRUE(runPipeline([](PassManager &pm) { populateFusePipeline(pm); }));
    EXPECT_FALSE(module->lookupSymbol<func::FuncOp>("microstep").getOps<graph::FusionOp>().empty());
    expectSame(run(*module, "microstep", values), microstep, 1e-10);
    expectSame(run(*module, "eval", values), eval, 1e-10);
    expectSame(run(*module, "update", values), update, 1e-10);
  }
}

} // namespace
