// Which library executes what, in words; the runtime's folders Device/host and Device/cuda do so.
#include "compiler/Report/KernelUses.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/CudnnAttention.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc {
namespace {

using Kernels = std::vector<uint32_t>;

template <typename Step> Kernels gpuKernels(const Step &step) {
  return {step.gpu_kernels().begin(), step.gpu_kernels().end()};
}

bool hasTarget(const plan::Plan &plan, bool gpu) {
  return llvm::any_of(plan.images(), [gpu](const plan::Image &image) { return isGpuTarget(image.target()) == gpu; });
}

/// Products on the host, by the type of their operands. Which library it is shows on the processor that runs the plan.
CallExecution hostProduct(plan::DataType type) {
  constexpr const char *kLibrary = "own f32 products; oneDNN for few rows";
  if (type == plan::F32)
    return {"host", kLibrary, "tiles of the result, shared out to the threads", {}};
  if (type == plan::BF16)
    return {"host",
            kLibrary,
            "oneDNN's in bf16 where the processor has AVX512-BF16 or AMX, else f32 panels of widened operands",
            {}};
  return {"host", kLibrary, "f32 panels of widened operands", {}};
}

/// Bytes of an operand on a GPU; 0: the step has no such operand.
uint64_t gpuBytes(const plan::Plan &plan, const plan::Step &step, int operand) {
  if (operand < 0 || operand >= step.operands_size() || int(step.operands(operand).slot()) >= plan.slots_size())
    return 0;
  const plan::SizeForm &size = plan.slots(int(step.operands(operand).slot())).size();
  return size.gpu_elements() * size.element_bytes();
}

CallExecution gpuProduct(const plan::Plan &plan, const plan::Step &step) {
  const plan::Gemm &gemm = step.gemm();
  std::string workspace = "no workspace";
  if (const uint64_t bytes = gpuBytes(plan, step, 3))
    workspace = "at most " + formatSize(bytes) + " of workspace";
  return {
      "gpu",
      "cuBLASLt",
      formatv("{0} operands, f32 sums, {1}; the fastest algorithm that repeats its bits, measured at the start of a "
              "run",
              dataTypeName(gemm.type_a()), workspace),
      {}};
}

/// What only a run knows, whether cuDNN is there and what it takes, is left open.
CallExecution gpuAttention(const plan::Plan &plan, const plan::Step &step) {
  const plan::Attention &attention = step.attention();
  const std::string common = "no scores in memory, no atomic sums";
  if (const char *obstacle = cudnnAttentionObstacle(attention.type() != plan::F32, attention.head_dim()))
    return {"gpu", "own kernels", formatv("{0}; {1}", obstacle, common), gpuKernels(attention)};
  return {"gpu", "cuDNN or own kernels",
          formatv("cuDNN where it is found and takes no more than the {0} of workspace reserved, else own kernels; {1}",
                  formatSize(gpuBytes(plan, step, step.operands_size() - 1)), common),
          gpuKernels(attention)};
}

void addAttention(const plan::Plan &plan, const plan::Step &step, bool host, bool gpu, std::vector<CallExecution> &to) {
  const plan::Attention &attention = step.attention();
  if (host) {
    CallExecution execution = hostProduct(attention.type());
    execution.reason =
        formatv("products of blocks of {0} rows up to the diagonal, between them rows by kernels", attention.block());
    execution.kernels = {attention.softmax_kernel()};
    if (attention.grad())
      execution.kernels.insert(execution.kernels.end(), {attention.softmax_grad_kernel(), attention.row_dot_kernel()});
    to.push_back(std::move(execution));
  }
  if (gpu)
    to.push_back(gpuAttention(plan, step));
}

void addLoss(const plan::LinearCrossEntropy &loss, bool host, bool gpu, std::vector<CallExecution> &to) {
  if (host) {
    CallExecution execution = hostProduct(loss.type());
    execution.reason = formatv("products of {0} rows at a time, between them rows by a kernel", loss.chunk());
    execution.kernels = {loss.rows_kernel()};
    to.push_back(std::move(execution));
  }
  if (!gpu)
    return;
  // Logits are written and read in f32; cotangents in their place are written once and read by two products.
  const uint64_t logits = loss.tokens() * loss.vocabulary(), narrow = dataTypeBytes(loss.type());
  const uint64_t bytes = logits * (loss.training() ? 8 + 3 * narrow : 8);
  to.push_back(
      {"gpu", "cuBLASLt",
       formatv("{0} products of {1} rows at a time, between them rows by a kernel; logits and their cotangents "
               "move {2} besides",
               loss.training() ? 3 : 1, std::min(std::max<uint64_t>(1, loss.gpu_chunk()), loss.tokens()),
               formatSize(bytes)),
       gpuKernels(loss)});
}

} // namespace

std::vector<CallExecution> callExecutions(const plan::Plan &plan, const plan::Step &step) {
  const bool host = hasTarget(plan, /*gpu=*/false), gpu = hasTarget(plan, /*gpu=*/true);
  std::vector<CallExecution> to;
  const auto add = [&](const char *hostLibrary, const char *gpuLibrary, const char *reason, Kernels kernels = {}) {
    if (host)
      to.push_back({"host", hostLibrary, reason, {}});
    if (gpu)
      to.push_back({"gpu", gpuLibrary, reason, std::move(kernels)});
  };
  switch (step.kind_case()) {
  case plan::Step::kGemm:
    if (host)
      to.push_back(hostProduct(step.gemm().type_a()));
    if (gpu)
      to.push_back(gpuProduct(plan, step));
    break;
  case plan::Step::kAttention:
    addAttention(plan, step, host, gpu, to);
    break;
  case plan::Step::kLinearCrossEntropy:
    addLoss(step.linear_cross_entropy(), host, gpu, to);
    break;
  case plan::Step::kGather:
    add("own loop", "own kernel", "rows by index", gpuKernels(step.gather()));
    break;
  case plan::Step::kScatterAdd:
    add("own loop", "own kernel", "rows are added in order of position", gpuKernels(step.scatter_add()));
    break;
  case plan::Step::kNarrow:
    add("own loop", "own kernel", "a whole bucket, in place", gpuKernels(step.narrow()));
    break;
  case plan::Step::kCopy:
  case plan::Step::kFill:
    add("memory", "CUDA driver", "no arithmetic");
    break;
  case plan::Step::kCollective:
    add("Gloo", "NCCL", "nothing at one rank");
    break;
  default:
    break;
  }
  return to;
}

} // namespace ztc
