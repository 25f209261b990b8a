// A run's --log-json file.
#pragma once
#include "runtime/Core/Status.h"
#include "llvm/Support/JSON.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::report {

struct RunLog {
  std::string name;                            ///< the file's, for a person
  llvm::json::Object header;                   ///< the last one: that of the newest resume
  std::vector<llvm::json::Object> steps;       ///< in order; where a resume repeated some, its own
  std::vector<llvm::json::Object> evaluations; ///< likewise
  std::optional<llvm::json::Object> summary, profile;
  bool isCut = false; ///< the last line is not complete: the run is at work or was killed
};

/// DataLoss where a line is not an object of such a log, NotFound where the file cannot be read.
StatusOr<RunLog> readRunLog(const std::string &path);

} // namespace ztc::report
