// Blocked attention, or its cotangents.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/CudnnAttention.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/AttentionWorkspace.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>

namespace ztc {

using namespace plan;

namespace {

/// A kernel has a buffer or a scalar more where attention is `what`, and says so in its name by `mark`.
Status checkMark(const StepCheck &check, uint32_t kernel, const char *mark, bool is, const char *what) {
  const std::string &name = check.plan.kernels(int(kernel)).name();
  if ((name.find(mark) != std::string::npos) != is)
    return dataLoss(fmt::format("kernel '{}' of attention that is {}{}", name, is ? "" : "not ", what));
  return Status::ok();
}

AttentionExtras extrasOf(const Attention &attention) {
  return {attention.packed(), attention.softcap() != 0};
}

bool hasTable(const Attention &attention) {
  return hasDocumentTable(attention.type() != F32, attention.head_dim(), extrasOf(attention));
}

/// Kernels of attention for GPUs from number `first` on, and the host's rows of scores.
Status checkMarks(const StepCheck &check, const Attention &attention, int first) {
  const bool softcapped = attention.softcap() != 0;
  for (int i = first; i < attention.gpu_kernels_size() - int(hasTable(attention)); ++i) {
    ZTC_RETURN_IF_ERROR(checkMark(check, attention.gpu_kernels(i), "_packed", attention.packed(), "packed"));
    ZTC_RETURN_IF_ERROR(checkMark(check, attention.gpu_kernels(i), "_softcap", softcapped, "softcapped"));
  }
  for (uint32_t kernel : {attention.softmax_kernel(), attention.grad() ? attention.softmax_grad_kernel() : kAbsent})
    if (kernel != kAbsent)
      ZTC_RETURN_IF_ERROR(checkMark(check, kernel, "_softcap", softcapped, "softcapped"));
  return Status::ok();
}

Status checkKernels(const StepCheck &check, const Attention &attention) {
  const std::string form = fmt::format("{}_{}", kernelTypeSuffix(attention.type()), attention.head_dim());
  if (attention.packed() && !attention.causal())
    return dataLoss("attention of packed rows that is not causal");
  if (!(attention.softcap() >= 0 && std::isfinite(float(attention.softcap()))))
    return dataLoss(fmt::format("attention with a softcap of {}", attention.softcap()));
  const bool isForGpus = !attention.gpu_kernels().empty();
  const auto withTable = [&](std::vector<std::string> kernels) {
    if (hasTable(attention))
      kernels.push_back("gpu_document_table");
    return kernels;
  };
  if (!attention.grad()) {
    ZTC_RETURN_IF_ERROR(check.gpuServices(attention, withTable({"gpu_attention" + form})));
    ZTC_RETURN_IF_ERROR(check.hostService(attention.softmax_kernel(), "attention_softmax", isForGpus));
    return checkMarks(check, attention, 0);
  }
  ZTC_RETURN_IF_ERROR(
      check.gpuServices(attention, withTable({"gpu_attention_delta" + form, "gpu_attention_grad_keys" + form,
                                              "gpu_attention_grad_queries" + form})));
  ZTC_RETURN_IF_ERROR(check.hostService(attention.softmax_kernel(), "attention_softmax", isForGpus));
  ZTC_RETURN_IF_ERROR(check.hostService(attention.softmax_grad_kernel(), "attention_softmax_grad", isForGpus));
  ZTC_RETURN_IF_ERROR(check.hostService(attention.row_dot_kernel(), "row_dot", isForGpus));
  return checkMarks(check, attention, 1); // delta is the same
}

/// What only a run knows, whether cuDNN is there and what it takes, is left open.
CallExecution gpuExecution(const Plan &plan, const Step &step) {
  const Attention &attention = step.attention();
  const std::string common = "no scores in memory, no atomic sums";
  if (const char *obstacle = cudnnAttentionObstacle(attention.type() != F32, attention.head_dim(), extrasOf(attention)))
    return {"gpu", "own kernels", fmt::format("{}; {}", obstacle, common), gpuKernelsOf(attention)};
  const std::string most =
      attention.packed() ? fmt::format(", no row has more than {} documents", cudnnMostDocuments(attention.seq())) : "";
  const int scratch = step.operands_size() - (attention.packed() ? 2 : 1);
  return {"gpu", "cuDNN or own kernels",
          fmt::format("cuDNN where it is found{} and it takes no more than the {} of workspace reserved, else own "
                      "kernels; {}",
                      most, formatSize(gpuOperandBytes(plan, step, scratch)), common),
          gpuKernelsOf(attention)};
}

class AttentionDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Attention &attention = check.step.attention();
    const bool grad = attention.grad();
    ZTC_RETURN_IF_ERROR(StepCheck::real(attention.type()));
    ZTC_RETURN_IF_ERROR(checkKernels(check, attention));
    ZTC_RETURN_IF_ERROR(check.count((grad ? 10 : 6) + (attention.packed() ? 1 : 0)));
    if (!attention.batch() || !attention.seq() || !attention.heads() || !attention.kv_heads() ||
        !attention.head_dim() || !attention.block())
      return dataLoss("attention with a size of zero");
    if (attention.heads() % attention.kv_heads() != 0)
      return dataLoss(fmt::format("attention: {} heads over {} key heads", attention.heads(), attention.kv_heads()));
    const CheckedBytes rows = CheckedBytes(attention.batch()) * attention.seq();
    const CheckedBytes q = rows * attention.heads() * attention.head_dim(),
                       kv = rows * attention.kv_heads() * attention.head_dim();
    const CheckedBytes lse = rows * attention.heads() * 4;
    struct Use {
      const char *name;
      const CheckedBytes *elements;
    };
    const std::initializer_list<Use> forward = {{"q", &q}, {"k", &kv}, {"v", &kv}, {"out", &q}, {"lse", nullptr}};
    const std::initializer_list<Use> backward = {{"q", &q},    {"k", &kv}, {"v", &kv},  {"out", &q}, {"lse", nullptr},
                                                 {"dout", &q}, {"dq", &q}, {"dk", &kv}, {"dv", &kv}};
    int index = 0;
    for (const Use &use : grad ? backward : forward) {
      ZTC_RETURN_IF_ERROR(
          check.holds(index, use.name, use.elements ? *use.elements * dataTypeBytes(attention.type()) : lse));
      ++index;
    }
    if (attention.packed())
      return check.holds(grad ? 10 : 6, "document_starts", rows * 4);
    return Status::ok();
  }

  std::string text(const Plan &, const Step &step) const override {
    const Attention &a = step.attention();
    return fmt::format("attention{} B{} S{} H{}/{} D{}{}{}{}{}{}", a.grad() ? "_grad" : "", a.batch(), a.seq(),
                       a.heads(), a.kv_heads(), a.head_dim(), typeText(a.type()), a.causal() ? " causal" : "",
                       a.window() ? fmt::format(" window {}", a.window()) : "", a.packed() ? " packed" : "",
                       a.softcap() != 0 ? fmt::format(" softcap {}", a.softcap()) : "");
  }

  const char *family(const Step &step) const override {
    return step.attention().grad() ? "attention gradient" : "attention";
  }

  StepWork work(const Plan &, const Step &step) const override {
    return isNarrow(step.attention().type()) ? StepWork::NarrowAttention : StepWork::Attention;
  }

  std::vector<CallExecution> executions(const Plan &plan, const Step &step, bool host, bool gpu) const override {
    const Attention &attention = step.attention();
    std::vector<CallExecution> executions;
    if (host) {
      CallExecution execution = hostProduct(attention.type());
      execution.reason = fmt::format("products of blocks of {} rows up to the diagonal, between them rows by kernels",
                                     attention.block());
      execution.kernels = {attention.softmax_kernel()};
      if (attention.grad())
        execution.kernels.insert(execution.kernels.end(),
                                 {attention.softmax_grad_kernel(), attention.row_dot_kernel()});
      executions.push_back(std::move(execution));
    }
    if (gpu)
      executions.push_back(gpuExecution(plan, step));
    return executions;
  }
};

/// The operand of a gradient that is its workspace.
constexpr int kGradientWorkspace = 9;

/// Whether cuDNN may keep the scores of a step. Those of packed rows would be those of documents as long as the
/// longest.
bool mayKeepScores(const Step &step) {
  const Attention &attention = step.attention();
  return attention.grad() && !attention.packed() &&
         !cudnnAttentionObstacle(attention.type() != F32, attention.head_dim(), extrasOf(attention));
}

uint64_t workspaceOf(const Attention &attention, const AttentionPart &part) {
  return cudnnScoresWorkspaceBytes(part.sequences, attention.seq(),
                                   attention.heads() / attention.kv_heads() * part.kvHeads, part.kvHeads,
                                   attention.head_dim());
}

/// The largest part whose scores take at most `bytes`.
AttentionPart largestPart(const Attention &attention, uint64_t bytes) {
  for (const AttentionPart &part : attentionParts(attention.batch(), attention.kv_heads()))
    if (workspaceOf(attention, part) <= bytes)
      return part;
  return {0, 0};
}

} // namespace

std::vector<uint64_t> scoresWorkspaces(const Plan &plan) {
  std::set<uint64_t, std::greater<>> sizes;
  for (const Program &program : plan.programs())
    for (const Step &step : program.steps())
      if (mayKeepScores(step))
        for (const AttentionPart &part : attentionParts(step.attention().batch(), step.attention().kv_heads()))
          sizes.insert(workspaceOf(step.attention(), part));
  return {sizes.begin(), sizes.end()};
}

void setScoresWorkspace(Plan &plan, uint64_t bytes) {
  std::map<uint32_t, uint64_t> needed; // by slot
  for (const Program &program : plan.programs())
    for (const Step &step : program.steps()) {
      if (!mayKeepScores(step))
        continue;
      const Attention &attention = step.attention();
      const AttentionPart part = largestPart(attention, bytes);
      const uint64_t without =
          gpuAttentionScratchBytes(attention.batch(), attention.seq(), attention.heads(), attention.kv_heads(),
                                   attention.head_dim(), /*narrow=*/true, /*grad=*/true, extrasOf(attention));
      uint64_t &slot = needed[step.operands(kGradientWorkspace).slot()];
      slot = std::max({slot, without, part.sequences ? workspaceOf(attention, part) : 0});
    }
  for (const auto &[slot, size] : needed) {
    SizeForm &form = *plan.mutable_slots(int(slot))->mutable_size();
    form.set_gpu_elements(size / form.element_bytes());
  }
}

AttentionPart scoresPart(const Plan &plan, const Step &step) {
  if (!mayKeepScores(step))
    return {0, 0};
  return largestPart(step.attention(), gpuOperandBytes(plan, step, kGradientWorkspace));
}

const StepDefinition &defineAttention() {
  static const AttentionDefinition definition;
  return definition;
}

} // namespace ztc
