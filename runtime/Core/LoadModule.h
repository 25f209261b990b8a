// Modules of ztc: libraries of its own that a program opens when it needs them, because what they depend on may be
// missing. What crosses the border is a C table of functions.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// The folder of the running program.
std::string programFolder();

/// Where a module of this file name is looked for: `path` alone where that is given, else beside the program, then in
/// ../lib.
std::vector<std::string> moduleCandidates(const std::string &name, const std::string &path,
                                          const std::string &programFolder);

/// Opens the first of these files that exists, never to close it, and returns the table that its function `symbol`
/// gives. Fails with NotFound where there is none of the files; with FailedPrecondition and the loader's words where
/// that one does not load, and where it is of another build: the table's first member, a uint32_t, is not `version`.
StatusOr<const void *> openModuleTable(const std::vector<std::string> &candidates, const char *symbol,
                                       uint32_t version);

} // namespace ztc
