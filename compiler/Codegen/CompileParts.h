// A module of kernels, kernel by kernel.
#pragma once
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class Module;
} // namespace llvm

namespace ztc::codegen {

class KernelCache;

/// What is known of a kernel before it is compiled; the step's module owns the bytes.
struct KnownKernel {
  llvm::StringRef content;               ///< see KernelContent.h
  std::optional<llvm::StringRef> object; ///< for the target
};
using KnownKernels = llvm::StringMap<KnownKernel>; ///< by name

/// The key under which a KernelCache has the object of a function of this content (KernelContent.h), or of this bitcode
/// where its content is not known.
std::string objectKey(llvm::StringRef target, llvm::StringRef content);

/// The objects of the functions of `module` with external linkage, in its order. A function that `known` has an object
/// of may be a declaration; other declarations have none. Each other function stands alone in a module in a context of
/// its own, with what only this module sees and it refers to, and `compile` makes an object of that, on as many threads
/// as there are processors. What `cache` holds of the same function for the same `target` is taken from there; what is
/// made is kept there. `module` stays as it is. Fails with the first function's error.
llvm::Expected<std::vector<std::string>>
compileParts(const llvm::Module &module, llvm::StringRef target, const KernelCache &cache, const KnownKernels &known,
             llvm::function_ref<llvm::Expected<std::string>(llvm::Module &)> compile);

} // namespace ztc::codegen
