// Files that the compiler leaves behind: whole, or a message.
#pragma once
#include "compiler/Support/EndBySignal.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace ztc {

/// While replaceFile() writes `path`: a signal that ends the program removes what is half written (EndBySignal.h).
class TemporaryOutput {
public:
  explicit TemporaryOutput(const std::string &path);

private:
  RemovedBySignal removed_;
};

/// Writes `text` to `path`: a file is replaced in one go, a device or a pipe is written to. "" where it arrived, else
/// what went wrong. Use it in place of LLVM's file streams, which abort the program if their error is never
/// checked.
std::string writeOutput(const std::string &path, llvm::StringRef text);

} // namespace ztc
