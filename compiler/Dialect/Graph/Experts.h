// Rows that go to groups: the experts of a mixture. Graph.h does not have these ops, so that the few files that know
// them include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphExperts.h.inc"
