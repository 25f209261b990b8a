// What the files of KernelModule share.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/KernelBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace ztc {

/// A group that has kernels.
struct KnownGroup {
  LoweredGroup lowered;
  kernel::FuncOp form; ///< null where no bodies are wanted
};

struct KernelModule::State {
  /// Of a module `@kernels` of its own, and of one that there is: what it holds stays, and keeps its names.
  State(mlir::MLIRContext &context, KernelModuleOptions options);
  State(mlir::ModuleOp kernels, KernelModuleOptions options);

  /// `wanted`, cleaned of what a symbol cannot hold and numbered where it is taken.
  std::string uniqueName(llvm::StringRef wanted);
  /// A kernel function without a body: an entry block with (buffers, scalars, begin, end). The builder stands at its
  /// end.
  mlir::func::FuncOp createKernel(codegen::KernelBuilder &b, llvm::StringRef name);
  /// The same for a GPU: with pointers to global memory, scalars and the extent.
  mlir::func::FuncOp createDeviceKernel(codegen::KernelBuilder &b, llvm::StringRef name, unsigned pointers,
                                        unsigned scalars);
  /// Closes the function at the builder.
  static void finishKernel(codegen::KernelBuilder &b, mlir::func::FuncOp kernel);
  /// Lets an attempt write a kernel's body, and closes it. One that fails leaves nothing; `restart` says whether
  /// another one is worth its while.
  template <class Form>
  static llvm::LogicalResult attempt(codegen::KernelBuilder &b, mlir::func::FuncOp kernel, Form &form, bool &restart) {
    if (llvm::succeeded(form.run())) {
      finishKernel(b, kernel);
      return llvm::success();
    }
    kernel.erase();
    restart = form.wantsRestart();
    return llvm::failure();
  }
  /// Says how a kernel for GPUs is launched.
  static void setLaunch(mlir::func::FuncOp kernel, const DeviceLaunch &launch);
  codegen::KernelBuilder builder();
  /// The description of the service kernel `key`, and whether it is new: then it has a unique name made of `name` and
  /// the buffers, results where `written`, and no function yet.
  std::pair<KernelDescription &, bool> describeService(llvm::StringRef key, llvm::StringRef name,
                                                       llvm::ArrayRef<bool> written);

  mlir::MLIRContext &context;
  KernelModuleOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> owned; ///< `kernels`, where it is this one's own
  mlir::ModuleOp kernels;                  ///< `@kernels`
  mlir::ModuleOp hostModule, gpuModule;    ///< `@host` and `@gpu` in it; null where no bodies are wanted for these
  llvm::StringMap<unsigned> names;         ///< how often a name was asked for
  llvm::StringMap<KnownGroup> groups;      ///< by structural key
  llvm::StringMap<KernelDescription> services;

private:
  void open();
};

namespace codegen {
/// What `form` makes of a product, and the derivative at a logit that it made; f32, scalar or vector.
mlir::Value bendLogit(KernelBuilder &b, const LogitForm &form, mlir::Value product);
mlir::Value slopeAtLogit(KernelBuilder &b, const LogitForm &form, mlir::Value logit);
/// For the name of a kernel that is made for `form`; "" for a plain one.
std::string formSuffix(const LogitForm &form);
} // namespace codegen

} // namespace ztc
