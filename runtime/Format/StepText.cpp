#include "runtime/Format/StepText.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>

namespace ztc {

static const char *accumulateText(plan::Accumulate a) {
  return a == plan::ADD ? " +=" : a == plan::ADD_UNLESS_FIRST ? " += (first micro-step: =)" : "";
}

static const plan::Kernel *kernelOf(const plan::Plan &plan, const plan::Launch &launch) {
  return launch.kernel() < uint32_t(plan.kernels_size()) ? &plan.kernels(int(launch.kernel())) : nullptr;
}

static const std::string &bucketName(const plan::Plan &plan, uint32_t bucket) {
  static const std::string unknown = "?";
  return bucket < uint32_t(plan.buckets_size()) ? plan.buckets(int(bucket)).name() : unknown;
}

/// " bf16", or nothing for f32, which goes without saying.
static std::string typeText(plan::DataType type) {
  return type == plan::F32 ? "" : fmt::format(" {}", dataTypeName(type));
}

static std::string gemmText(const plan::Gemm &g) {
  return fmt::format("gemm {}{}x{}x{}{}{}{}{}{}", g.batch() > 1 ? fmt::format("{} x ", g.batch()) : "", g.m(), g.n(),
                     g.k(), g.transpose_a() ? " aT" : "", g.transpose_b() ? " bT" : "", typeText(g.type_a()),
                     g.type_a() == g.type_c() ? "" : fmt::format(" -> {}", dataTypeName(g.type_c())),
                     accumulateText(g.accumulate()));
}

static std::string attentionText(const plan::Attention &a) {
  return fmt::format("attention{} B{} S{} H{}/{} D{}{}{}{}", a.grad() ? "_grad" : "", a.batch(), a.seq(), a.heads(),
                     a.kv_heads(), a.head_dim(), typeText(a.type()), a.causal() ? " causal" : "",
                     a.window() ? fmt::format(" window {}", a.window()) : "");
}

static std::string lossText(const plan::LinearCrossEntropy &l) {
  return fmt::format("linear_cross_entropy{}{} {} tokens x {} -> {}, {} rows a chunk{}",
                     l.training() ? "" : " (loss only)", typeText(l.type()), l.tokens(), l.width(), l.vocabulary(),
                     l.chunk(), accumulateText(l.accumulate()));
}

static const char *collectiveName(plan::Collective::Kind kind) {
  switch (kind) {
  case plan::Collective::ALL_GATHER:
    return "all_gather";
  case plan::Collective::REDUCE_SCATTER:
    return "reduce_scatter";
  case plan::Collective::ALL_REDUCE:
    return "all_reduce";
  default:
    return "collective";
  }
}

std::string stepKindText(const plan::Plan &plan, const plan::Step &step) {
  switch (step.kind_case()) {
  case plan::Step::kLaunch: {
    const plan::Launch &launch = step.launch();
    const plan::Kernel *kernel = kernelOf(plan, launch);
    std::string extent = fmt::format("{} units", launch.extent());
    if (launch.flat())
      extent = (launch.flat_range() == plan::Launch::WHOLE ? "bucket " : "own shard of bucket ") +
               bucketName(plan, launch.bucket());
    return fmt::format("launch {}, {}{}", kernel ? kernel->name() : "?", extent, accumulateText(launch.accumulate()));
  }
  case plan::Step::kGemm:
    return gemmText(step.gemm());
  case plan::Step::kAttention:
    return attentionText(step.attention());
  case plan::Step::kLinearCrossEntropy:
    return lossText(step.linear_cross_entropy());
  case plan::Step::kGather:
    return fmt::format("gather {} rows of {} bytes", step.gather().rows(), step.gather().row_bytes());
  case plan::Step::kScatterAdd:
    return fmt::format("scatter_add {} rows of {}{}{}", step.scatter_add().rows(), step.scatter_add().width(),
                       typeText(step.scatter_add().type()), accumulateText(step.scatter_add().accumulate()));
  case plan::Step::kCopy:
    return fmt::format("copy {} bytes", step.copy().bytes());
  case plan::Step::kFill:
    return fmt::format("fill {}", step.fill().value());
  case plan::Step::kCollective: {
    const plan::Collective &c = step.collective();
    bool isScalar = c.kind() == plan::Collective::ALL_REDUCE;
    return fmt::format("{} {} over \"{}\", {}, launch {}{}", collectiveName(c.kind()),
                       isScalar ? "scalar" : bucketName(plan, c.bucket()), c.axis(), dataTypeName(c.type()),
                       c.launch_order(), step.only_last_microstep() ? " (last micro-step only)" : "");
  }
  case plan::Step::kRecord:
    return fmt::format("record event {}", step.record().event());
  case plan::Step::kWait:
    return fmt::format("wait event {}", step.wait().event());
  case plan::Step::kNarrow:
    return fmt::format("round {} to {}{}", dataTypeName(step.narrow().from()), dataTypeName(step.narrow().to()),
                       step.only_last_microstep() ? " (last micro-step only)" : "");
  case plan::Step::kTransfer:
    return "transfer buffers (checkpoint, export, gradient dump)";
  default:
    return "nothing";
  }
}

std::string stepCallText(const plan::Plan &plan, const plan::Step &step) {
  switch (step.kind_case()) {
  case plan::Step::kLaunch: {
    const plan::Kernel *kernel = kernelOf(plan, step.launch());
    return kernel ? fmt::format("{} ({})", kernel->name(), kernel->form()) : "?";
  }
  case plan::Step::kCollective:
    return collectiveName(step.collective().kind());
  case plan::Step::kRecord:
    return "record";
  case plan::Step::kWait:
    return "wait";
  case plan::Step::kFill:
    return "fill";
  default:
    return stepKindText(plan, step);
  }
}

} // namespace ztc
