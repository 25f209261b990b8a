// From graph.fusion groups to machine code: what the rest of the compiler sees of the code generator.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/LogicalResult.h"
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// One entry of a kernel's `buffers` argument. All buffers are contiguous and row-major; i1 takes one byte an element.
struct KernelBuffer {
  enum class Kind { Operand, Result, Workspace };
  Kind kind = Kind::Operand;
  unsigned index = 0; ///< of the group's operand or result; 0 for the workspace
  bool written = false;
};

/// How a kernel is launched on a GPU: over ceil(extent / unitsPerBlock) blocks of a one-dimensional grid. Its
/// parameters are a pointer per buffer, the scalars of the launch, and its extent (i64).
struct DeviceLaunch {
  int64_t blockThreads = 0; ///< 0: there is no version for GPUs
  int64_t unitsPerBlock = 1;
  int64_t sharedBytes = 0;    ///< static, of a block
  int64_t blocksTogether = 0; ///< for which a multiprocessor's registers must do; 0: the assembler decides
};

/// One launch of `void kernel(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end)`.
struct KernelDescription {
  std::string name;                  ///< the symbol in every image
  std::string form;                  ///< a kernel::Form, or service: of a library call
  std::vector<KernelBuffer> buffers; ///< in the order of the kernel's argument
  uint64_t extent = 0;               ///< size of the parallel range; 0 where a bucket's length decides (flat)
  uint64_t grain = 1;                ///< the fewest units that a worker takes at a time
  bool flat = false; ///< the range counts blocks of flatBlock elements, scalars = {length, global start}
  uint64_t flatBlock = 0;
  std::vector<int64_t> scalars; ///< for a flat kernel over a static length: {length, 0}
  bool hasAdd = false; ///< the symbol name + kernel::kAddSuffix adds to its results instead of overwriting them
  bool onHost = true;  ///< false: there are versions for GPUs alone
  DeviceLaunch device; ///< of a library call's kernel for GPUs; those of groups are in KernelImage::launches
};

/// The kernels of a group: launches in order, and the memory that they share.
struct LoweredGroup {
  std::vector<KernelDescription> kernels;  ///< in order; later ones read the workspace that an earlier one writes
  uint64_t workspaceBytes = 0;             ///< of a group whose sizes are known
  uint64_t workspaceBytesPerFlatBlock = 0; ///< of a flat group whose length is not: times the number of blocks
  std::string text;                        ///< the group in readable form
};

/// What a kernel takes of a GPU's thread, as the assembler says.
struct KernelResources {
  uint64_t registers = 0;
  uint64_t localBytes = 0; ///< stack and spilled registers
};

/// Machine code of all kernels for one target.
struct KernelImage {
  std::string target; ///< x86-64-v3, x86-64-v4; sm_XX; simt
  /// For the host an ELF shared object that needs no other library; for sm_XX a cubin, or PTX where no assembler was
  /// found; for simt an ELF shared object that imports NVVM's intrinsics (EmitSimt.h).
  std::string bytes;
  std::string ptx;                                  ///< of sm_XX, in readable form
  unsigned cudaVersion = 0;                         ///< of a cubin: its assembler's, 1000 major + 10 minor
  std::map<std::string, KernelResources> resources; ///< by kernel; of a cubin
  std::map<std::string, DeviceLaunch> launches;     ///< by kernel; of targets with blocks of threads
  bool waits = false; ///< kernels begin by waiting for those before them (programmatic dependent launch)
};

/// Targets of the host device, the widest last. Those of GPUs: DeviceTargets.h.
inline constexpr llvm::StringLiteral kHostTargets[] = {"x86-64-v3", "x86-64-v4"};

/// For which kinds of targets a module makes kernels.
struct KernelModuleOptions {
  bool host = true, device = false;
  bool bodies = true; ///< false: kernels are described, as a memory report needs them, and nothing is written
};

/// What is built into a GPU's attention kernels.
struct AttentionForm {
  int64_t headDim = 0;
  bool causal = true, windowed = false; ///< windowed: with causal alone
  mlir::Type type;                      ///< f32, bf16 or f16, of the tensors
  bool packed = false;                  ///< rows hold several documents; with causal alone
  bool softcapped = false;              ///< scores are cap * tanh(x / cap), cap a scalar of the kernel
};
inline constexpr int64_t kMaxGpuHeadDim = 512;

/// What is built into a GPU's product of rows that belong to groups: a (rows, k) times b (groups, k, n), or, with
/// `outer`, sums of a's rows (rows, k) times b's (rows, n).
struct GroupedGemmForm {
  mlir::Type type, result; ///< f32, bf16 or f16; the result's: the same, or f32
  bool transposeB = false; ///< b is (groups, n, k)
  bool outer = false;      ///< without transposeB
  bool isWhole = true;     ///< n and k are multiples of 8
};

/// What becomes of the head's products before the loss: cap(scale * x), with cap(x) = softcap * tanh(x / softcap) where
/// softcap is not 0; and whether each row's loss and cotangents are multiplied by a weight of its own.
struct LogitForm {
  double scale = 1.0, softcap = 0.0;
  bool weighted = false;

  bool isPlain() const { return scale == 1.0 && softcap == 0.0; }
};

/// Collects the kernels of a step in `@kernels`: groups as forms, which the mappings read, library calls as functions
/// for processors and GPUs. Equal groups share their kernels. Not thread-safe.
class KernelModule {
public:
  /// Loads the dialects of kernels into `context`: during a pass they are there already. The module `@kernels` is its
  /// own; `emit` compiles it.
  explicit KernelModule(mlir::MLIRContext &context, KernelModuleOptions options = {});
  /// Works on the `@kernels` of `step`, which is made where there is none. Names that are taken there stay so.
  explicit KernelModule(mlir::ModuleOp step, KernelModuleOptions options);
  ~KernelModule();

  /// Plans the kernels of a group, which is of this context, and makes its kernel.func; with `withAdd`, kernels that
  /// write results also come as a variant that adds to them. Where `classes` gives results of the group different
  /// numbers no kernel writes results of two numbers: some are added to what their memory holds, others are not. The
  /// name is the group's, made unique. A group that no form fits is a located diagnostic.
  llvm::FailureOr<LoweredGroup> addGroup(graph::FusionOp group, bool withAdd = false,
                                         llvm::ArrayRef<unsigned> classes = {});

  /// The service kernels of runtime/Format/ServiceKernels.md, at most one of each kind and constants. The extent is the
  /// caller's. `type` is that of the call's tensors: what enters a product of narrow factors is rounded to it.
  /// `softcapped`: scores arrive divided by their cap.
  KernelDescription addAttentionSoftmax(bool causal, mlir::Type type, bool softcapped = false);
  KernelDescription addAttentionSoftmaxGrad(double scale, bool causal, mlir::Type type, bool softcapped = false);
  KernelDescription addRowDot();
  KernelDescription addCrossEntropyRows(bool training, mlir::Type type, const LogitForm &form = {});
  /// `packed`: rows hold several documents.
  KernelDescription addSelectiveScan(bool packed);
  KernelDescription addSelectiveScanGrad(bool packed);
  /// Attention's kernels for GPUs in the order of `gpu_kernels`; none where the module makes none for GPUs, or for
  /// heads of more than kMaxGpuHeadDim.
  std::vector<KernelDescription> addGpuAttention(const AttentionForm &form, bool grad);

  /// Where the documents of packed rows lie, for cuDNN; the last of attention's `gpu_kernels` where it may be called.
  KernelDescription addGpuDocumentTable();

  /// What a GPU executes in place of library calls, by the same document. There are versions for GPUs only.
  /// `divided`: an index is divided by a scalar first.
  KernelDescription addGpuGather(int64_t rowBytes, bool divided = false);
  KernelDescription addGpuScatterAdd(int64_t width, mlir::Type dyType);
  KernelDescription addGpuNarrow(mlir::Type to);
  /// `columns`: of the matrix.
  KernelDescription addGpuDequantize(graph::WeightFormat format, int64_t columns, mlir::Type to);
  /// Of a matrix of type `from`: the largest magnitudes of its parts, and its fp8 codes (e4m3, or e5m2) in the orders
  /// asked for. Of bytes (i8), which are codes, the transposed matrix.
  KernelDescription addGpuFp8Maxima(mlir::Type from);
  KernelDescription addGpuQuantizeFp8(bool isE4m3, bool byRows, bool byColumns, mlir::Type from);
  /// The same with a scale that is known, and the maxima of its blocks; the largest of these; transposed codes, and the
  /// largest of the maxima that another kernel found.
  KernelDescription addGpuEncodeFp8(bool isE4m3, bool byRows, bool byColumns, mlir::Type from);
  KernelDescription addGpuFp8Largest();
  KernelDescription addGpuNoteCodes(mlir::Type maxima);
  KernelDescription addGpuCrossEntropyRows(bool training, mlir::Type type, int64_t vocabulary,
                                           const LogitForm &form = {});
  KernelDescription addGpuLossSum();
  /// Rows that go to groups: the order of choices, in the order of `gpu_kernels`; sums of choices' rows; products.
  std::vector<KernelDescription> addGpuRoute();
  KernelDescription addGpuCombine(int64_t width, mlir::Type type);
  KernelDescription addGpuGroupedGemm(const GroupedGemmForm &form);
  /// Chunks of linear attention: their states, with products in a chunk or sums alone; inverses of their matrices.
  KernelDescription addGpuStatePassing(bool hasProducts);
  KernelDescription addGpuUnitLowerInverse();
  /// `states`: numbers of a channel's state.
  KernelDescription addGpuSelectiveScan(bool grad, int64_t states, bool packed);

  /// What the module makes kernels for.
  const KernelModuleOptions &options() const;

  /// Maps, lowers and compiles a copy of all kernels: one image per target, in order; the options said which kinds
  /// there may be. Nothing to emit gives images without kernels. What cannot be mapped is a located diagnostic.
  llvm::FailureOr<std::vector<KernelImage>> emit(llvm::ArrayRef<llvm::StringRef> targets);
  /// The kernels in MLIR, before they are mapped.
  std::string text() const;

  struct State; ///< of the code generator's own files

private:
  std::unique_ptr<State> state_;
};

} // namespace ztc
