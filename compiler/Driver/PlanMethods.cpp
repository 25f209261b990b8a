#include "compiler/Driver/PlanMethods.h"
#include "compiler/Driver/CommandText.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/RegisteredNames.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

namespace ztc::driver {

std::vector<std::string> PlanMethod::changes() const {
  std::vector<std::string> words;
  if (optimizerState)
    words.push_back("optimizer states in " + wordOf(*optimizerState));
  if (masters)
    words.push_back("no masters");
  if (updatesInBackward)
    words.push_back("updates in the backward");
  return words;
}

bool PlanMethod::isFor(const CompileOptions &options) const {
  return (!masters || storesBf16(options.precision)) &&
         !(updatesInBackward && (options.precision == StoragePrecision::Fp16 || orthogonalizes(options)));
}

llvm::ArrayRef<PlanMethod> planMethods() {
  static constexpr PlanMethod kMethods[] = {
      {.name = TrainingMethod::Full},
      {.name = TrainingMethod::Full, .optimizerState = StateFormat::Bf16},
      {.name = TrainingMethod::Full, .optimizerState = StateFormat::Int8},
      {.name = TrainingMethod::Full, .updatesInBackward = true},
      {.name = TrainingMethod::Full, .optimizerState = StateFormat::Bf16, .masters = MasterFormat::None},
      {.name = TrainingMethod::Full, .optimizerState = StateFormat::Int8, .masters = MasterFormat::None},
      {.name = TrainingMethod::Full,
       .optimizerState = StateFormat::Int8,
       .masters = MasterFormat::None,
       .updatesInBackward = true},
      {.name = TrainingMethod::Lora, .lora = "r=16,alpha=32,targets=all-linear"},
      {.name = TrainingMethod::Qlora, .lora = "r=16,alpha=32,targets=all-linear", .quantize = FrozenFormat::Nf4},
  };
  return kMethods;
}

CompileOptions PlanScope::optionsOf(const PlanMethod &method, uint64_t batch) const {
  CompileOptions used = options;
  used.batch = batch;
  if (method.lora && used.lora.empty() && used.adapter.empty())
    used.lora = method.lora;
  if (!method.lora)
    used.lora = used.adapter = "";
  // A format that was asked for stands, where the method has one.
  if (method.quantize == FrozenFormat::Plain || used.quantize == FrozenFormat::Plain)
    used.quantize = method.quantize;
  used.optimizerState = method.optimizerState.value_or(used.optimizerState);
  used.masters = method.masters.value_or(used.masters);
  if (method.updatesInBackward)
    used.updateTime = UpdateTime::InBackward;
  used.recompute = "auto";
  used.memoryBudget = availableBytes;
  used.memoryReserve = reserveBytes;
  used.given.insert("reserve");
  used.targets = {gpu ? gpu->target : "host"};
  used.hostMemory = used.diskMemory = 0;
  used.disk = "";
  return used;
}

uint64_t PlanScope::hostMemory() const {
  return gpu && !options.given.count("host-mem") ? kAnyHostMemory : options.hostMemory;
}

void PlanScope::openSpaces(CompileOptions &used) const {
  used.hostMemory = hostMemory();
  used.disk = options.disk;
  used.diskMemory = options.diskMemory;
}

/// What the user typed that the command has to say again.
static std::string givenAgain(const CompileOptions &o) {
  std::string text;
  const auto add = [&](const char *name, const std::string &value) {
    if (!value.empty())
      text += " " + std::string(name) + "=" + shellWord(value);
  };
  add("--weights", o.weights);
  add("--freeze", o.freezePattern);
  add("--padding-token", o.paddingToken);
  if (o.pack)
    text += " --pack";
  if (o.lossWeights)
    text += " --loss-weights";
  add("--optimizer", o.optimizer == "adamw" ? "" : o.optimizer);
  add("--adjust-lr-fn", orthogonalizes(o) && o.adjustLrFn != AdjustLr::MatchRmsAdamw ? wordOf(o.adjustLrFn) : "");
  for (const std::string &role : o.inputRoles)
    add("--input", role);
  return text;
}

/// What lies below the device, with room for what layouts round up.
static std::string roomFor(uint64_t bytes) {
  constexpr uint64_t kMib = 1 << 20;
  return std::to_string(roundUp(bytes + 16 * kMib, kMib)) + "B";
}

void PlanScope::addCommands(report::TrainingChoice &choice, const CompileOptions &used) const {
  std::string text = "ztc compile " + shellWord(used.input) + " -o plan.bin" + givenAgain(used);
  const auto add = [&](const char *name, const std::string &value) { text += std::string(" --") + name + "=" + value; };
  add("batch", std::to_string(choice.batch));
  add("seq", std::to_string(choice.sequence));
  add("precision", wordOf(used.precision));
  if (choice.stage)
    add("zero", std::to_string(choice.stage));
  if (!used.adapter.empty())
    add("adapter", shellWord(used.adapter));
  else if (!used.lora.empty())
    add("lora", shellWord(used.lora));
  if (used.quantize != FrozenFormat::Plain)
    add("quantize", wordOf(used.quantize));
  if (used.optimizerState != StateFormat::Fp32)
    add("optimizer-state", wordOf(used.optimizerState));
  if (used.masters != MasterFormat::Fp32)
    add("master", wordOf(used.masters));
  if (used.updateTime != UpdateTime::After)
    add("update", wordOf(used.updateTime));
  add("mem", std::to_string(availableBytes) + "B");
  if (reserveBytes || gpu) // without the option ztc compile would estimate a reserve for a GPU
    add("reserve", std::to_string(reserveBytes) + "B");
  if (choice.hostBytes)
    add("host-mem", options.hostMemory ? std::to_string(options.hostMemory) + "B" : roomFor(choice.hostBytes));
  if (choice.diskBytes) {
    add("disk", shellWord(used.disk));
    if (options.diskMemory)
      add("disk-mem", std::to_string(options.diskMemory) + "B");
  }
  add("gpus", std::to_string(choice.world));
  if (choice.accumulate > 1)
    add("accumulate", std::to_string(choice.accumulate));
  add("target", used.targets.front());
  if (gpu)
    add("gpu", gpu->name);
  if (used.threads)
    add("threads", std::to_string(used.threads));
  choice.compile = text;
  choice.run =
      std::string("ztc-run plan.bin") +
      (gpu ? " --gpus=" + std::to_string(choice.world) : " --device=cpu --ranks=" + std::to_string(choice.world)) +
      (used.threads ? " --threads=" + std::to_string(used.threads) : "") +
      (choice.accumulate > 1 ? " --accumulate=" + std::to_string(choice.accumulate) : "") +
      (choice.diskBytes ? " --disk=" + shellWord(used.disk) : "") + runOptions;
  const auto addMissing = [&](std::initializer_list<StringRef> any, const char *more) {
    if (llvm::none_of(any, [&](StringRef name) { return StringRef(choice.run).contains((" --" + name + "=").str()); }))
      choice.run += more;
  };
  addMissing({"data"}, " --data=TOKENS");
  addMissing({"steps", "epochs"}, " --steps=N");
  if (used.updateTime == UpdateTime::InBackward && runOptions.find(" --clip=") == std::string::npos)
    choice.run += " --clip=block";
}

} // namespace ztc::driver
