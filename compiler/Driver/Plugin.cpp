#include "compiler/Driver/Plugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

llvm::ArrayRef<ztc::PhaseInfo> ztc::allPhases() {
  static const PhaseInfo phases[] = {
#define PHASE(enumerator, name, sentence, postCondition) {Phase::enumerator, name, sentence, postCondition},
#include "compiler/Driver/Phases.def"
  };
  return phases;
}

void ztc::PhaseHooks::add(const Table &table, Phase phase, OpPassManager &pm) {
  if (auto found = table.find(phase); found != table.end())
    for (const Factory &factory : found->second)
      pm.addPass(factory());
}

LogicalResult ztc::loadPlugin(StringRef file, PhaseHooks &hooks) {
  llvm::Expected<PassPlugin> plugin = PassPlugin::load(file.str());
  if (!plugin) {
    llvm::errs() << "ztc: cannot load the pass plugin '" << file << "': " << llvm::toString(plugin.takeError()) << "\n";
    return failure();
  }
  plugin->registerPassRegistryCallbacks();
  std::string error;
  llvm::sys::DynamicLibrary library = llvm::sys::DynamicLibrary::getPermanentLibrary(file.str().c_str(), &error);
  if (void *address = library.isValid() ? library.getAddressOfSymbol("ztcRegisterPhaseHooks") : nullptr)
    reinterpret_cast<void (*)(PhaseHooks &)>(address)(hooks);
  return success();
}
