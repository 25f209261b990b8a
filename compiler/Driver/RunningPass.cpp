#include "compiler/Driver/RunningPass.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Signals.h"
#include <unistd.h>

using namespace mlir;

namespace ztc::driver {
namespace {

std::string running;

/// In a signal handler: nothing but write.
void sayRunning(void *) {
  if (running.empty())
    return;
  for (StringRef text : {StringRef("ztc: the program crashed in "), StringRef(running), StringRef("\n")})
    if (write(STDERR_FILENO, text.data(), text.size()) < 0)
      return;
}

class Names : public PassInstrumentation {
public:
  Names(const PhaseHooks &hooks, Phase phase) : hooks(hooks), phase(phase) {}
  void runBeforePass(Pass *pass, Operation *) override {
    const PhaseHooks::Origin *origin = hooks.originOf(pass);
    if (!origin)
      return;
    running = describePass(*pass, origin->plugin) + " in phase " + allPhases()[size_t(phase)].name;
  }
  void runAfterPass(Pass *, Operation *) override { running.clear(); }
  void runAfterPassFailed(Pass *, Operation *) override { running.clear(); }

private:
  const PhaseHooks &hooks;
  Phase phase;
};

} // namespace

std::unique_ptr<PassInstrumentation> notePasses(const PhaseHooks &hooks, Phase phase) {
  static const bool once = [] {
    llvm::sys::AddSignalHandler(sayRunning, nullptr);
    return true;
  }();
  (void)once;
  return std::make_unique<Names>(hooks, phase);
}

const std::string &runningPass() {
  return running;
}

} // namespace ztc::driver
