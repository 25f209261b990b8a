#include "compiler/Support/ScratchFolder.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace ztc {

ScratchFolder::ScratchFolder(llvm::StringRef name) {
  constexpr int kTries = 16;
  error = std::make_error_code(std::errc::file_exists);
  for (int i = 0; i < kTries && error == std::errc::file_exists; ++i) {
    llvm::SmallString<128> made;
    llvm::sys::fs::createUniquePath(name + "-%%%%%%%%%%%%", made, /*MakeAbsolute=*/true);
    removed_.emplace(made.str().str()); // before it is there: a signal in between would leave it
    error = llvm::sys::fs::create_directory(made, /*IgnoreExisting=*/false);
    if (error)
      removed_.reset();
    else
      path = made.str().str();
  }
}

ScratchFolder::~ScratchFolder() {
  if (!path.empty())
    (void)llvm::sys::fs::remove_directories(path);
}

bool writeFile(const std::string &path, llvm::StringRef content) {
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  out << content;
  out.close();
  const bool isWhole = !error && !out.has_error();
  out.clear_error();
  return isWhole;
}

std::string scratchProblem(const llvm::Twine &what, std::error_code error) {
  return (what + ": " + error.message() + kScratchAdvice).str();
}

} // namespace ztc
