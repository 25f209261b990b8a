// `If`: when sizes are bound, the condition says which branch stays.
#pragma once
#include "frontends/onnx/Evaluator.h"

namespace ztc::importer {

/// Makes each choice that inlineBranches left an Identity of the branch that its condition chooses. True where there
/// was one: then nodes of the other branches are left that nothing reads. A condition that depends on tokens or
/// parameters is a sentence in `error`.
bool resolveBranches(Model &model, const Liveness &liveness, Binding binding, std::string &error);

} // namespace ztc::importer
