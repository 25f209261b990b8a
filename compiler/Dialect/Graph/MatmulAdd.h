// The product with a sum that is rounded once. Graph.h does not have it, so that the few files that know it include
// this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphMatmulAdd.h.inc"
