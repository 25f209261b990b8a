// Ops of weights that are gathered as fp8 codes. Dist.h does not have them, so that the few files that know them
// include this.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Dist/DistFp8.h.inc"
