// Waits for another stream's mark.
#include "compiler/Conversion/Steps/Steps.h"

using namespace mlir;

namespace ztc {

void emitWait(StepEmitter &emitter, Operation *start, StringRef what, Stream stream, int64_t event,
              ArrayRef<Attribute> slots) {
  const StartedCollective &collective = emitter.started(start);
  StepHead head{emitter.uniqueLabel((collective.label + " " + what).str()), emitter.number(collective.layer),
                emitter.number(0), emitter.builder().getStringAttr("for the other stream")};
  auto wait = emitter.begin<plan_ir::WaitOp>(head, slots, stream);
  wait.event = emitter.number(event);
  wait.only_last = start->getAttrOfType<UnitAttr>("only_last");
  (void)emitter.create<plan_ir::WaitOp>(start, wait);
}

/// No op becomes one by itself: collectives have them.
void registerWaitStep(DialectRegistry &) {}

} // namespace ztc
