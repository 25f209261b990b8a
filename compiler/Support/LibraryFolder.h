// Where libZtc.so lies: what is installed beside it is found from there.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace ztc {

/// The folder of libZtc.so, as it was loaded; "" where the system does not say.
std::string libraryFolder();
/// The first of these folders below it that has `file`; "" where none has.
std::string installedFolder(llvm::ArrayRef<llvm::StringRef> places, llvm::StringRef file);

} // namespace ztc
