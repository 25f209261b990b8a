// Products with a sum that are rounded once. Graph.h does not have them, so that the few files that know them include
// this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphMatmulAdd.h.inc"
