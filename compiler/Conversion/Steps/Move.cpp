// Moves between spaces: passes/Offload puts them between the steps that there are.
#include "compiler/Conversion/Steps/Steps.h"

using namespace mlir;

namespace ztc {

/// No op becomes one.
void registerMoveStep(DialectRegistry &) {}

} // namespace ztc
