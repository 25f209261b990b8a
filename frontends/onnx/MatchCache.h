// Results of holding a graph against a checkpoint, kept between compilations.
#pragma once
#include "nlohmann/json.hpp"
#include "llvm/ADT/ArrayRef.h"
#include <string>

namespace ztc::importer {

/// What identifies files without reading them: path, size, time of last change; and `facts`, which the result depends
/// on besides.
std::string matchKey(llvm::ArrayRef<std::string> files, llvm::StringRef facts);

/// null where nothing is kept under `key`. The folder is $ZTC_CACHE, else ~/.cache/ztc.
nlohmann::json readMatches(const std::string &key);
/// Failures are of no consequence.
void keepMatches(const std::string &key, const nlohmann::json &matches);

} // namespace ztc::importer
