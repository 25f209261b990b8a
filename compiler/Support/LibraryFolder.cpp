#include "compiler/Support/LibraryFolder.h"
#include "llvm/Support/Path.h"
#include <dlfcn.h>

std::string ztc::libraryFolder() {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void *>(&libraryFolder), &self) || !self.dli_fname)
    return {};
  return llvm::sys::path::parent_path(self.dli_fname).str();
}
