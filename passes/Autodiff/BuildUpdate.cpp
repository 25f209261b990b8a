#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Autodiff/UpdateBody.h"
#include "runtime/Format/StepParameters.h"

#define DEBUG_TYPE "ztc-build-update"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_BUILDUPDATE
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// The arguments of @update, kind by kind in the order of the parameters.
struct UpdateSignature {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Location> locations;

  void add(Type type, DictionaryAttr dictionary, Location loc) {
    types.push_back(type);
    attributes.push_back(dictionary);
    locations.push_back(loc);
  }
};

struct BuildUpdate : impl::BuildUpdateBase<BuildUpdate> {
  void runOnOperation() override {
    func::FuncOp microstep = findFunction(getOperation(), "microstep");
    if (!microstep)
      return signalPassFailure();
    SmallVector<unsigned> trainable = graph::argumentsWithRole(microstep, "parameter");
    llvm::erase_if(trainable, [&](unsigned index) { return graph::isFrozen(microstep, index); });

    func::FuncOp update = createFunction(microstep, trainable);
    size_t count = trainable.size();
    SmallVector<UpdateEntry> entries;
    for (auto [i, index] : llvm::enumerate(trainable)) {
      auto argument = [&, i = i](unsigned kind) { return update.getArgument(1 + kind * count + i); };
      bool decays = !microstep.getArgAttr(index, graph::kNoDecay);
      int64_t elements = cast<RankedTensorType>(microstep.getArgumentTypes()[index]).getNumElements();
      entries.push_back({argument(0), argument(1), argument(2), argument(3), decays ? elements : 0});
    }
    OpBuilder builder(update.getBody().front().getTerminator());
    UpdateValues values = buildUpdateBody(builder, update.getLoc(), update.getArgument(0), entries);

    SmallVector<NamedResult> results;
    auto addKind = [&](ArrayRef<Value> kind, StringRef result) {
      for (auto [value, index] : llvm::zip(kind, trainable))
        results.push_back({value, result, graph::argString(microstep, index, graph::kName)});
    };
    addKind(values.parameters, "parameter");
    addKind(values.expAvgs, "exp_avg");
    addKind(values.expAvgSqs, "exp_avg_sq");
    results.push_back({values.gradientNorm, "gradient_norm"});
    results.push_back({values.finite, "finite"});
    setResults(update, results);
  }

  /// @update with its arguments and an empty body.
  func::FuncOp createFunction(func::FuncOp microstep, ArrayRef<unsigned> trainable) {
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto dictionary = [&](StringRef role, StringRef name) {
      SmallVector<NamedAttribute> entries{builder.getNamedAttr(graph::kRole, builder.getStringAttr(role))};
      if (!name.empty())
        entries.push_back(builder.getNamedAttr(graph::kName, builder.getStringAttr(name)));
      return builder.getDictionaryAttr(entries);
    };
    UpdateSignature signature;
    signature.add(RankedTensorType::get({kStepParameterCount}, builder.getF32Type()), dictionary("step", ""),
                  microstep.getLoc());
    for (StringRef role : {"parameter", "gradient", "exp_avg", "exp_avg_sq"})
      for (unsigned index : trainable) {
        DictionaryAttr attributes = role == "parameter"
                                        ? microstep.getArgAttrDict(index)
                                        : dictionary(role, graph::argString(microstep, index, graph::kName));
        signature.add(microstep.getArgumentTypes()[index], attributes, microstep.getArgument(index).getLoc());
      }
    auto update =
        func::FuncOp::create(builder, microstep.getLoc(), "update", builder.getFunctionType(signature.types, {}));
    update.setAllArgAttrs(signature.attributes);
    Block &body = update.getBody().emplaceBlock();
    body.addArguments(signature.types, signature.locations);
    builder.setInsertionPointToEnd(&body);
    func::ReturnOp::create(builder, update.getLoc());
    return update;
  }
};
} // namespace
} // namespace ztc
