// A kernel from outside: machine code for processors, PTX or a cubin for GPUs, in place of what ztc would write for a
// group.
// The group stays what the kernel means: `ztc compile --verify` runs the one against the other.
//   clang -O2 -c -march=x86-64-v3 -ffp-contract=off add.c -o add.o
//   ztc compile MODEL --load-pass-plugin=OutsideKernel.so --pass-option=outside-kernel.kernel=add
//     --pass-option=outside-kernel.object=add.o -o plan.bin
// add.c defines   void add(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);   see
// compiler/Codegen/README.md. With ptx=add.ptx, threads=128 and units=4 a block of 128 threads has 4 units of the
// range. cubin=add.cubin and architecture=sm_90a take a linked image for one GPU (ptxas -arch=sm_90a add.ptx -o
// add.cubin). Neither runs on a machine without a GPU: simt=add-simt.o is an object that stands for them there, under
// `--verify` and on stand-in GPUs; without it what ztc generates of the group does.
#include "compiler/Codegen/OwnKernel.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/MemoryBuffer.h"

namespace {

using ztc::kernel::ObjectKind;

struct OutsideKernel : mlir::PassWrapper<OutsideKernel, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OutsideKernel)
  OutsideKernel() = default;
  OutsideKernel(const OutsideKernel &other) : PassWrapper(other) {}
  llvm::StringRef getArgument() const override { return "outside-kernel"; }
  llvm::StringRef getDescription() const override { return "takes the machine code of a kernel from a file"; }

  void runOnOperation() override {
    getOperation().walk([&](ztc::kernel::FuncOp form) {
      if (form.getSymName() != kernel)
        return;
      llvm::SmallVector<ztc::kernel::LaunchAttr> launches(
          form.getSchedules().size(),
          ztc::kernel::LaunchAttr::get(&getContext(), threads, units, /*shared=*/0, /*blocks=*/0));
      if (mlir::failed(take(form, ObjectKind::Host, object, {})) ||
          mlir::failed(take(form, ObjectKind::Ptx, ptx, launches)) ||
          mlir::failed(take(form, ObjectKind::Cubin, cubin, launches, architecture)) ||
          mlir::failed(take(form, ObjectKind::Simt, simt, launches)))
        signalPassFailure();
    });
  }

  mlir::LogicalResult take(ztc::kernel::FuncOp form, ObjectKind kind, llvm::StringRef file,
                           llvm::ArrayRef<ztc::kernel::LaunchAttr> launches, llvm::StringRef architecture = {}) {
    if (file.empty())
      return mlir::success();
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer)
      return form.emitError("cannot read ") << file << ": " << buffer.getError().message();
    ztc::kernel::supply(form, kind, (*buffer)->getBuffer(), launches, architecture);
    return mlir::success();
  }

  Option<std::string> kernel{*this, "kernel", llvm::cl::desc("name of the kernel, as ztc inspect --kernels has it")};
  Option<std::string> object{*this, "object", llvm::cl::desc("ELF object for x86-64")};
  Option<std::string> ptx{*this, "ptx", llvm::cl::desc("text of PTX")};
  Option<std::string> cubin{*this, "cubin", llvm::cl::desc("linked image for one GPU")};
  Option<std::string> architecture{*this, "architecture", llvm::cl::desc("of the cubin"), llvm::cl::init("sm_90a")};
  Option<std::string> simt{*this, "simt", llvm::cl::desc("ELF object that stands for PTX and cubin without a GPU")};
  Option<int> threads{*this, "threads", llvm::cl::desc("of a block, on a GPU"), llvm::cl::init(128)};
  Option<int> units{*this, "units", llvm::cl::desc("of the range that a block has"), llvm::cl::init(1)};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "outside-kernel", "1.0", [] { mlir::PassRegistration<OutsideKernel>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::KernelLevel::Forms, [] { return std::make_unique<OutsideKernel>(); });
}
