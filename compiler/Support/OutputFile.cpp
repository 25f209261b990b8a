#include "compiler/Support/OutputFile.h"
#include "runtime/Core/File.h"
#include "runtime/Core/TemporaryName.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace ztc {

static std::string temporaryOf(const std::string &path) {
  const StatusOr<std::string> replaced = replaceablePath(path);
  return temporaryName(replaced.isOk() ? *replaced : path);
}

TemporaryOutput::TemporaryOutput(const std::string &path) : removed_(temporaryOf(path)) {}

std::string writeOutput(const std::string &path, llvm::StringRef text) {
  llvm::sys::fs::file_status status;
  const bool isThere = !llvm::sys::fs::status(path, status);
  if (!isThere || llvm::sys::fs::is_regular_file(status) || llvm::sys::fs::is_directory(status)) {
    const TemporaryOutput temporary(path);
    const Status done = replaceFile(path, text);
    return done.isOk() ? std::string() : done.message();
  }
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error) {
    out << text;
    out.close();
    error = out.error();
    out.clear_error();
  }
  return error ? "cannot write '" + path + "': " + error.message() : std::string();
}

} // namespace ztc
