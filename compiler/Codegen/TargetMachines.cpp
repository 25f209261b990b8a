#include "compiler/Codegen/TargetMachines.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace ztc::codegen {

Expected<std::unique_ptr<TargetMachine>> createTargetMachine(StringRef tripleText, StringRef cpu, StringRef features,
                                                             std::optional<Reloc::Model> relocation,
                                                             CodeGenOptLevel level) {
  Triple triple(tripleText);
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(triple, cpu, features, options, relocation, std::nullopt, level));
  if (!machine)
    return createStringError("no code generator for " + cpu);
  return machine;
}

void optimizeKernels(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, modules);
}

} // namespace ztc::codegen
