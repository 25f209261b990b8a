// libztc-gloo.so, found and opened.
#pragma once
#include "runtime/Collective/gloo/GlooModule.h"
#include "runtime/Core/Status.h"
#include <string>

namespace ztc {

/// The module's functions. Loaded once per process and kept; the first call's `path` counts. Empty: beside the program,
/// then in ../lib. Fails (FailedPrecondition) with what is missing and what to install.
StatusOr<const ZtcGlooFunctions *> loadGlooModule(const std::string &path);

/// What loadGlooModule does the first time; `programFolder` stands for that of the program.
StatusOr<const ZtcGlooFunctions *> openGlooModule(const std::string &path, const std::string &programFolder);

} // namespace ztc
