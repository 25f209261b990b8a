#include "compiler/Driver/PhaseOptions.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Driver/RegisteredNames.h"
#include "runtime/Format/FreshValues.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ztc::driver {

namespace {

constexpr llvm::StringLiteral kRecord = "ztc.options"; ///< of the module: names and values
constexpr llvm::StringLiteral kModel = "model", kFreshWeights = "fresh-weights";

template <typename List> std::string joined(const List &list) {
  return llvm::join(llvm::map_range(list, [](const auto &x) { return llvm::Twine(x).str(); }), ",");
}
std::vector<std::string> parts(StringRef text) {
  std::vector<std::string> list;
  for (StringRef part : llvm::split(text, ','))
    list.push_back(part.str());
  return list;
}

/// The word of an enum in IR that a person may have written; what is not one leaves the option as it is.
template <typename Enum> void take(Enum &option, StringRef word) {
  option = fromWord<Enum>(word).value_or(option);
}

/// An option of one phase. `write` is null where no later phase and no report reads it.
struct PhaseOption {
  StringRef name;
  Phase phase;
  std::string (*read)(const CompileOptions &);
  void (*write)(CompileOptions &, StringRef);
};

constexpr PhaseOption kOptions[] = {
    {"batch", Phase::Import, [](const auto &o) { return o.batch ? std::to_string(o.batch) : ""; }, nullptr},
    {"seq", Phase::Import, [](const auto &o) { return o.seq ? std::to_string(o.seq) : ""; }, nullptr},
    {"weights", Phase::Import, [](const auto &o) { return o.weights; }, [](auto &o, StringRef x) { o.weights = x; }},
    {"save-onnx", Phase::Import, [](const auto &o) { return o.saveOnnx; }, nullptr},
    {"input", Phase::Import, [](const auto &o) { return joined(o.inputRoles); },
     [](auto &o, StringRef x) { o.inputRoles = parts(x); }},
    {"padding-token", Phase::Import, [](const auto &o) { return o.paddingToken; },
     [](auto &o, StringRef x) { o.paddingToken = x; }},
    {"adapter", Phase::Import, [](const auto &o) { return o.adapter; }, [](auto &o, StringRef x) { o.adapter = x; }},
    {"lora", Phase::Import, [](const auto &o) { return o.lora; }, [](auto &o, StringRef x) { o.lora = x; }},
    {"quantize", Phase::Import, [](const auto &o) { return wordOf(o.quantize); },
     [](auto &o, StringRef x) { take(o.quantize, x); }},
    {"freeze", Phase::Backward, [](const auto &o) { return o.freezePattern; },
     [](auto &o, StringRef x) { o.freezePattern = x; }},
    {"no-decay", Phase::Backward, [](const auto &o) { return o.noDecayPattern; },
     [](auto &o, StringRef x) { o.noDecayPattern = x; }},
    {"lr-of", Phase::Backward, [](const auto &o) { return llvm::join(o.rates, " "); },
     [](auto &o, StringRef x) {
       o.rates.clear();
       for (StringRef rate : llvm::split(x, ' '))
         o.rates.push_back(rate.str());
     }},
    {"optimizer", Phase::Backward,
     [](const auto &o) -> std::string { return o.optimizer == "adamw" ? "" : o.optimizer; },
     [](auto &o, StringRef x) { o.optimizer = x; }},
    {"adjust-lr-fn", Phase::Backward,
     [](const auto &o) -> std::string { return orthogonalizes(o) ? wordOf(o.adjustLrFn) : ""; },
     [](auto &o, StringRef x) { take(o.adjustLrFn, x); }},
    {"update", Phase::Backward,
     [](const auto &o) { return o.updateTime == UpdateTime::After ? "" : wordOf(o.updateTime); },
     [](auto &o, StringRef x) { take(o.updateTime, x); }},
    {"pack", Phase::Backward, [](const auto &o) -> std::string { return o.pack ? "on" : ""; },
     [](auto &o, StringRef) { o.pack = true; }},
    {"loss-weights", Phase::Backward, [](const auto &o) -> std::string { return o.lossWeights ? "on" : ""; },
     [](auto &o, StringRef) { o.lossWeights = true; }},
    {"generate", Phase::Backward, [](const auto &o) -> std::string { return o.generate ? "cache" : ""; },
     [](auto &o, StringRef) { o.generate = true; }},
    {"precision", Phase::Precision, [](const auto &o) { return wordOf(o.precision); },
     [](auto &o, StringRef x) { take(o.precision, x); }},
    {"precision-policy", Phase::Precision, [](const auto &o) { return joined(o.keptFp32); },
     [](auto &o, StringRef x) { o.keptFp32 = parts(x); }},
    {"bf16-policy", Phase::Precision, [](const auto &o) { return joined(o.keptBf16); },
     [](auto &o, StringRef x) { o.keptBf16 = parts(x); }},
    {"fp8-gradients", Phase::Precision,
     [](const auto &o) { return o.precision == StoragePrecision::Fp8 ? wordOf(o.fp8Gradients) : ""; },
     [](auto &o, StringRef x) { take(o.fp8Gradients, x); }},
    {"fp8-scaling", Phase::Precision,
     [](const auto &o) { return o.fp8Scaling == Fp8Scaling::Dynamic ? "" : wordOf(o.fp8Scaling); },
     [](auto &o, StringRef x) { take(o.fp8Scaling, x); }},
    {"optimizer-state", Phase::Precision, [](const auto &o) { return wordOf(o.optimizerState); },
     [](auto &o, StringRef x) { take(o.optimizerState, x); }},
    {"master", Phase::Precision, [](const auto &o) { return o.masters == MasterFormat::Fp32 ? "" : wordOf(o.masters); },
     [](auto &o, StringRef x) { take(o.masters, x); }},
    {"zero", Phase::Shard, [](const auto &o) { return o.stages.empty() ? std::to_string(o.zero) : joined(o.stages); },
     [](auto &o, StringRef x) {
       o.stages.clear();
       if (x.getAsInteger(10, o.zero))
         o.zero = 0;
     }},
    {"recompute", Phase::Recompute, [](const auto &o) { return o.recompute; },
     [](auto &o, StringRef x) { o.recompute = x; }},
    {"host-mem", Phase::Recompute, [](const auto &o) { return o.hostMemory ? std::to_string(o.hostMemory) : ""; },
     [](auto &o, StringRef x) { x.getAsInteger(10, o.hostMemory); }},
    {"disk", Phase::Recompute, [](const auto &o) { return o.disk; }, [](auto &o, StringRef x) { o.disk = x; }},
    {"disk-mem", Phase::Recompute, [](const auto &o) { return o.diskMemory ? std::to_string(o.diskMemory) : ""; },
     [](auto &o, StringRef x) { x.getAsInteger(10, o.diskMemory); }},
    {"offloaded", Phase::Recompute, [](const auto &o) { return o.offload.isEmpty() ? "" : o.offload.text(); },
     [](auto &o, StringRef x) { o.offload = OffloadChoice::parse(x).value_or(OffloadChoice()); }},
    {"prefetch", Phase::Schedule, [](const auto &o) { return o.prefetch ? std::to_string(*o.prefetch) : ""; },
     [](auto &o, StringRef x) {
       unsigned prefetch = 0;
       if (!x.getAsInteger(10, prefetch))
         o.prefetch = prefetch;
     }},
    {"target", Phase::Codegen, [](const auto &o) { return joined(o.targets); },
     [](auto &o, StringRef x) { o.targets = parts(x); }},
};

/// What IR that a person has written says of an option.
std::string factOf(ModuleOp module, StringRef option) {
  const std::pair<StringRef, StringRef> facts[] = {
      {"batch", graph::kBatch}, {"seq", graph::kSequence}, {"precision", graph::kPrecision}, {"zero", dist::kZero}};
  for (const auto &[name, attribute] : facts) {
    if (name != option)
      continue;
    if (auto number = module->getAttrOfType<IntegerAttr>(attribute))
      return std::to_string(number.getInt());
    if (auto text = module->getAttrOfType<StringAttr>(attribute))
      return text.str();
  }
  return {};
}

StringRef phaseName(Phase phase) {
  for (const PhaseInfo &info : allPhases())
    if (info.phase == phase)
      return info.name;
  return {};
}

} // namespace

void recordOptions(ModuleOp module, const CompileOptions &options, const FreshModel &fresh, Phase done) {
  NamedAttrList record(module->getAttrOfType<DictionaryAttr>(kRecord));
  Builder builder(module.getContext());
  auto set = [&](StringRef name, StringRef value) {
    if (!value.empty() && !record.get(name))
      record.set(name, builder.getStringAttr(value));
  };
  set(kModel, options.model.empty() ? options.input : options.model);
  set(kFreshWeights, fresh.deviation);
  set(kFreshValues, fresh.values);
  for (const PhaseOption &option : kOptions)
    if (option.phase <= done) {
      std::string fact = factOf(module, option.name); // 0 and nothing stand for what the graph says
      set(option.name, fact.empty() ? option.read(options) : fact);
    }
  module->setAttr(kRecord, record.getDictionary(module.getContext()));
}

RecordedOptions takeRecordedOptions(ModuleOp module, Phase from, CompileOptions &options) {
  RecordedOptions result;
  auto record = module->getAttrOfType<DictionaryAttr>(kRecord);
  auto recorded = [&](StringRef name) {
    auto text = record ? record.getAs<StringAttr>(name) : StringAttr();
    return text ? text.str() : factOf(module, name);
  };
  options.model = recorded(kModel);
  result.fresh = {.deviation = recorded(kFreshWeights), .values = recorded(kFreshValues)};
  for (const PhaseOption &option : kOptions) {
    if (option.phase > from)
      continue;
    const std::string before = recorded(option.name), given = option.read(options);
    if (options.given.count(option.name.str())) {
      const std::string flag = "--" + option.name.str();
      const std::string place = flag + ": the input is IR after phase " + phaseName(from).str();
      if (before.empty() || before != given) {
        result.error = place +
                       (before.empty() ? std::string(": too late for that option")
                                       : ", which was made with " + flag + "=" + before) +
                       "; give it to the compilation that writes the IR";
        return result;
      }
      result.notes.push_back(place + ", which has it already");
    }
    if (option.write && !before.empty())
      option.write(options, before);
  }
  return result;
}

} // namespace ztc::driver
