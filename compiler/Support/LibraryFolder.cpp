#include "compiler/Support/LibraryFolder.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <dlfcn.h>

std::string ztc::libraryFolder() {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void *>(&libraryFolder), &self) || !self.dli_fname)
    return {};
  return llvm::sys::path::parent_path(self.dli_fname).str();
}

std::string ztc::installedFolder(llvm::ArrayRef<llvm::StringRef> places, llvm::StringRef file) {
  const std::string library = libraryFolder();
  if (library.empty())
    return {};
  for (llvm::StringRef place : places) {
    llvm::SmallString<256> folder = llvm::StringRef(library);
    llvm::sys::path::append(folder, place);
    if (llvm::sys::fs::exists(folder + "/" + file))
      return folder.str().str();
  }
  return {};
}
