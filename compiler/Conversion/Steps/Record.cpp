// Marks of what a stream has been given so far.
#include "compiler/Conversion/Steps/Steps.h"

using namespace mlir;

namespace ztc {

void emitRecord(StepEmitter &emitter, Operation *start, StringRef what, Stream stream, int64_t event) {
  const StartedCollective &collective = emitter.started(start);
  StepHead head{emitter.uniqueLabel((collective.label + " " + what).str()), emitter.number(collective.layer),
                emitter.number(0), emitter.builder().getStringAttr("another stream waits for it")};
  auto record = emitter.begin<plan_ir::RecordOp>(head, {}, stream);
  record.event = emitter.number(event);
  record.only_last = start->getAttrOfType<UnitAttr>("only_last");
  (void)emitter.create<plan_ir::RecordOp>(start, record);
}

/// No op becomes one by itself: collectives have them.
void registerRecordStep(DialectRegistry &) {}

} // namespace ztc
