#include "compiler/Driver/PhasePipelines.h"
#include "compiler/Driver/Pipeline.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace ztc::driver {
namespace {

/// A flag for each phase, and those options of `ztc compile` that phases read.
struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
#define PHASE(enumerator, name, sentence, postCondition) Option<bool> enumerator{*this, name, llvm::cl::desc(sentence)};
#include "compiler/Driver/Phases.def"
  Option<unsigned> zero{*this, "zero", llvm::cl::desc("ZeRO stage 0..3"), llvm::cl::init(0)};
  Option<StoragePrecision> precisionType{
      *this, "precision-type", llvm::cl::desc("what is stored and computed in"), llvm::cl::init(StoragePrecision::Bf16),
      llvm::cl::values(clEnumValN(StoragePrecision::Fp32, "fp32", ""), clEnumValN(StoragePrecision::Bf16, "bf16", ""),
                       clEnumValN(StoragePrecision::Fp16, "fp16", ""), clEnumValN(StoragePrecision::Fp8, "fp8", ""))};
  Option<std::string> recomputeLevel{*this, "recompute-level", llvm::cl::desc("none, cheap or layer"),
                                     llvm::cl::init("none")};
  ListOption<std::string> targets{
      *this, "targets",
      llvm::cl::desc(
          "host, x86-64-v3, x86-64-v4, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a, simt")};
  Option<bool> verify{*this, "verify", llvm::cl::desc("check the post-condition of each phase"), llvm::cl::init(true)};
};

void build(OpPassManager &pm, const PhaseOptions &given) {
  CompileOptions options;
  options.zero = given.zero;
  options.precision = given.precisionType;
  options.recompute = given.recomputeLevel;
  if (!given.targets.empty())
    options.targets.assign(given.targets.begin(), given.targets.end());
  auto add = [&](bool wanted, Phase phase) {
    if (!wanted)
      return;
    addPhase(phase, pm, options);
    if (given.verify)
      addPhaseVerifier(phase, pm);
  };
#define PHASE(enumerator, name, sentence, postCondition) add(given.enumerator, Phase::enumerator);
#include "compiler/Driver/Phases.def"
}

} // namespace

void registerPhasePipelines() {
  PassPipelineRegistration<PhaseOptions>(
      "ztc-phase", "the passes of phases, with their verifiers: --ztc-phase=\"shard fuse zero=3\"", build);
}

} // namespace ztc::driver
