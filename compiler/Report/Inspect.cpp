// `ztc inspect`: a plan as a document, its kernels, and its JSON form. lite protobuf has no printer: everything is
// written by hand.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc {

static const char *typeName(plan::DataType type) {
  switch (type) {
  case plan::F32:
    return "f32";
  case plan::BF16:
    return "bf16";
  case plan::F16:
    return "f16";
  case plan::F64:
    return "f64";
  case plan::I32:
    return "i32";
  case plan::I64:
    return "i64";
  case plan::I1:
    return "i1";
  case plan::U16:
    return "u16";
  default:
    return "bytes";
  }
}

static const char *className(plan::SlotClass c) {
  return c >= 1 && c <= int(kMemoryClassCount) - 1 ? kMemoryClassNames[c - 1] : "none";
}

static std::string shapeText(const plan::Slot &slot) {
  std::string text;
  for (int64_t d : slot.shape())
    text += std::to_string(d) + "x";
  return text + typeName(slot.type());
}

static const char *accumulateText(plan::Accumulate a) {
  return a == plan::ADD ? " +=" : a == plan::ADD_UNLESS_FIRST ? " += (first micro-step: =)" : "";
}

static std::string operandText(const plan::Plan &plan, const plan::Operand &operand) {
  std::string text = operand.slot() < unsigned(plan.slots_size()) ? plan.slots(operand.slot()).name() : "?";
  if (operand.offset())
    text += "+" + std::to_string(operand.offset());
  if (operand.own_shard())
    text += "[own shard]";
  return text;
}

/// Name of the kind and its sizes.
static std::string kindText(const plan::Plan &plan, const plan::Step &step) {
  switch (step.kind_case()) {
  case plan::Step::kLaunch: {
    const plan::Launch &launch = step.launch();
    const std::string &kernel = plan.kernels_size() > int(launch.kernel()) ? plan.kernels(launch.kernel()).name() : "?";
    std::string extent = launch.flat()
                             ? (launch.flat_range() == plan::Launch::WHOLE ? "bucket " : "own shard of bucket ") +
                                   plan.buckets(launch.bucket()).name()
                             : std::to_string(launch.extent()) + " units";
    return formatv("launch {0}, {1}{2}", kernel, extent, accumulateText(launch.accumulate()));
  }
  case plan::Step::kGemm: {
    const plan::Gemm &g = step.gemm();
    return formatv("gemm {0}{1}x{2}x{3}{4}{5}{6}", g.batch() > 1 ? std::to_string(g.batch()) + " x " : "", g.m(), g.n(),
                   g.k(), g.transpose_a() ? " aT" : "", g.transpose_b() ? " bT" : "", accumulateText(g.accumulate()));
  }
  case plan::Step::kAttention: {
    const plan::Attention &a = step.attention();
    return formatv("attention{0} B{1} S{2} H{3}/{4} D{5}{6}{7}", a.grad() ? "_grad" : "", a.batch(), a.seq(), a.heads(),
                   a.kv_heads(), a.head_dim(), a.causal() ? " causal" : "",
                   a.window() ? " window " + std::to_string(a.window()) : "");
  }
  case plan::Step::kLinearCrossEntropy: {
    const plan::LinearCrossEntropy &l = step.linear_cross_entropy();
    return formatv("linear_cross_entropy{0} {1} tokens x {2} -> {3}, {4} rows a chunk{5}",
                   l.training() ? "" : " (loss only)", l.tokens(), l.width(), l.vocabulary(), l.chunk(),
                   accumulateText(l.accumulate()));
  }
  case plan::Step::kGather:
    return formatv("gather {0} rows of {1} bytes", step.gather().rows(), step.gather().row_bytes());
  case plan::Step::kScatterAdd:
    return formatv("scatter_add {0} rows of {1}{2}", step.scatter_add().rows(), step.scatter_add().width(),
                   accumulateText(step.scatter_add().accumulate()));
  case plan::Step::kCopy:
    return formatv("copy {0} bytes", step.copy().bytes());
  case plan::Step::kFill:
    return formatv("fill {0}", step.fill().value());
  case plan::Step::kCollective: {
    const plan::Collective &c = step.collective();
    const char *kind = c.kind() == plan::Collective::ALL_GATHER       ? "all_gather"
                       : c.kind() == plan::Collective::REDUCE_SCATTER ? "reduce_scatter"
                                                                      : "all_reduce";
    bool ofBucket = c.kind() != plan::Collective::ALL_REDUCE && int(c.bucket()) < plan.buckets_size();
    return formatv("{0} {1} over \"{2}\", {3}, launch {4}{5}", kind,
                   ofBucket ? plan.buckets(c.bucket()).name() : "scalar", c.axis(), typeName(c.type()),
                   c.launch_order(), step.only_last_microstep() ? " (last micro-step only)" : "");
  }
  case plan::Step::kRecord:
    return formatv("record event {0}", step.record().event());
  case plan::Step::kWait:
    return formatv("wait event {0}", step.wait().event());
  case plan::Step::kTransfer:
    return "transfer buffers (checkpoint, export, gradient dump)";
  default:
    return "nothing";
  }
}

std::string describeStep(const plan::Plan &plan, const plan::Step &step) {
  std::vector<std::string> reads, writes;
  for (const plan::Operand &operand : step.operands())
    (operand.access() == plan::Operand::READ ? reads : writes).push_back(operandText(plan, operand));
  return formatv("{0,-44} {1}  ({2}) -> ({3})", step.name(), kindText(plan, step), llvm::join(reads, ", "),
                 llvm::join(writes, ", "));
}

void printPlanText(raw_ostream &out, const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory) {
  const plan::Plan &p = loaded.plan;
  out << formatv("plan of {0}, by ztc {1}\n", p.model().name(), p.ztc_version());
  out << formatv("  sha256       {0}\n", loaded.sha256);
  out << formatv("  model        {0} parameters in {1} tensors, {2} layers, vocabulary {3}, position limit {4}\n",
                 p.model().parameters(), p.parameters_size(), p.model().layers(), p.model().vocabulary(),
                 p.model().position_limit());
  out << formatv("  micro-batch  {0} x {1} tokens; {2}; ZeRO-{3}\n", p.model().batch(), p.model().seq(), p.precision(),
                 p.zero());
  for (const auto &[name, value] : std::map<std::string, std::string>(p.options().begin(), p.options().end()))
    out << formatv("  option       --{0}={1}\n", name, value);
  for (const std::string &remark : p.remarks())
    out << "  remark       " << remark << "\n";

  out << formatv("\nmemory of one rank at W={0}, M={1}, T={2}: {3} ({4} bytes), peak in {5} at `{6}`\n", shape.world,
                 shape.accumulate, shape.threads, formatSize(memory.arenaBytes), memory.arenaBytes, memory.peakProgram,
                 [&]() -> std::string {
                   for (const plan::Program &program : p.programs())
                     if (program.name() == memory.peakProgram && int(memory.peakStep) < program.steps_size())
                       return program.steps(memory.peakStep).name();
                   return "load";
                 }());
  for (size_t c = 0; c < kMemoryClassCount; ++c)
    if (memory.byClass[c])
      out << formatv("  {0,-14} {1,16} bytes\n", kMemoryClassNames[c], memory.byClass[c]);

  if (shape.world > 1) {
    SentBytes sent = sentBytes(p, shape);
    out << formatv("\nsent by each rank per optimizer step: {0} bytes\n", sent.parametersAndGradients());
    out << formatv("  all_gather     {0,16} bytes\n  reduce_scatter {1,16} bytes\n  scalars        {2,16} bytes\n",
                   sent.allGather, sent.reduceScatter, sent.allReduce);
  }
  out << "\nbuckets\n";
  for (const plan::Bucket &bucket : p.buckets())
    out << formatv("  {0,-24} {1,14} elements, {2} decayed{3}\n", bucket.name(), bucket.elements(), bucket.decayed(),
                   bucket.trainable() ? "" : ", frozen");
  out << "\nparameters\n";
  for (const plan::Parameter &parameter : p.parameters()) {
    std::string shapeText;
    for (int64_t d : parameter.shape())
      shapeText += (shapeText.empty() ? "" : "x") + std::to_string(d);
    out << formatv("  {0,-52} {1,-14} {2}+{3}", parameter.name(), shapeText, p.buckets(parameter.bucket()).name(),
                   parameter.offset());
    for (const std::string &name : parameter.tied())
      out << ", tied: " << name;
    if (!parameter.source().path().empty())
      out << formatv(", from {0}@{1}{2}", parameter.source().path(), parameter.source().offset(),
                     parameter.source().transpose() ? " transposed" : "");
    out << "\n";
  }
  for (const plan::Program &program : p.programs()) {
    bool communicates = llvm::any_of(program.steps(), [](const plan::Step &step) { return step.stream() == 1; });
    out << formatv("\n{0}: {1} steps{2}\n", program.name(), program.steps_size(),
                   communicates ? " (~: on the communication stream, beside computation)" : "");
    for (int i = 0; i < program.steps_size(); ++i)
      out << formatv("  {0,5}  {1}{2}\n", i, program.steps(i).stream() == 1 ? "~ " : "",
                     describeStep(p, program.steps(i)));
  }
}

void printPlanKernels(raw_ostream &out, const plan::Plan &p) {
  std::vector<unsigned> uses(p.kernels_size());
  std::map<std::string, std::pair<unsigned, std::string>> calls;
  for (const plan::Program &program : p.programs())
    for (const plan::Step &step : program.steps()) {
      if (step.has_launch() && int(step.launch().kernel()) < p.kernels_size()) {
        ++uses[step.launch().kernel()];
        if (step.launch().accumulate() != plan::OVERWRITE && int(step.launch().kernel_add()) < p.kernels_size())
          ++uses[step.launch().kernel_add()];
      } else if (!step.has_launch()) {
        auto &entry = calls[kindText(p, step)];
        ++entry.first;
        entry.second = step.reason();
      }
    }
  out << "generated kernels\n";
  for (int i = 0; i < p.kernels_size(); ++i) {
    const plan::Kernel &kernel = p.kernels(i);
    // Service kernels are called by attention and by the loss, not launched.
    std::string use =
        kernel.form() == "service" ? "called by library steps;" : formatv("used {0,4} times;", uses[i]).str();
    out << formatv("  {0,-44} {1,-18} {2}", kernel.name(), kernel.form(), use);
    for (const plan::Kernel::Version &version : kernel.versions())
      out << " " << version.target();
    out << "\n";
    if (!kernel.text().empty()) {
      llvm::SmallVector<llvm::StringRef> lines;
      llvm::StringRef(kernel.text()).split(lines, '\n', -1, false);
      for (llvm::StringRef line : lines)
        out << "      " << line << "\n";
    }
  }
  out << "library calls\n";
  for (const auto &[text, entry] : calls)
    out << formatv("  {0,-72} {1,4} times{2}\n", text, entry.first, entry.second.empty() ? "" : ": " + entry.second);
  out << "images\n";
  for (const plan::Image &image : p.images())
    out << formatv("  {0,-12} {1} bytes\n", image.target(), image.data().size());
}

void printPlanMemory(raw_ostream &out, const plan::Plan &p, const MemoryPlan &memory) {
  std::vector<int> order;
  for (int i = 0; i < p.slots_size(); ++i)
    if (memory.slots[i].bytes)
      order.push_back(i);
  llvm::sort(order, [&](int a, int b) {
    return std::make_pair(memory.slots[a].offset, a) < std::make_pair(memory.slots[b].offset, b);
  });
  out << formatv("arena {0} bytes; largest live set {1} bytes\n", memory.arenaBytes, memory.largestLiveBytes);
  out << "         offset            bytes  class          name\n";
  for (int i : order)
    out << formatv("{0,15} {1,16}  {2,-13}  {3} ({4}){5}\n", memory.slots[i].offset, memory.slots[i].bytes,
                   className(p.slots(i).slot_class()), p.slots(i).name(), shapeText(p.slots(i)),
                   p.slots(i).reason().empty() ? "" : ": " + p.slots(i).reason());
}

void printPlanJson(raw_ostream &out, const LoadedPlan &loaded, const MemoryPlan &memory) {
  const plan::Plan &p = loaded.plan;
  llvm::json::OStream json(out, 1);
  json.object([&] {
    json.attribute("sha256", loaded.sha256);
    json.attribute("ztc_version", p.ztc_version());
    json.attributeObject("model", [&] {
      json.attribute("name", p.model().name());
      json.attribute("batch", int64_t(p.model().batch()));
      json.attribute("seq", int64_t(p.model().seq()));
      json.attribute("vocabulary", int64_t(p.model().vocabulary()));
      json.attribute("layers", int64_t(p.model().layers()));
      json.attribute("parameters", int64_t(p.model().parameters()));
      json.attribute("flops_per_token", p.model().flops_per_token());
    });
    json.attribute("precision", p.precision());
    json.attribute("zero", int64_t(p.zero()));
    json.attribute("peak_bytes", int64_t(memory.arenaBytes));
    json.attributeObject("by_class", [&] {
      for (size_t c = 0; c < kMemoryClassCount; ++c)
        json.attribute(kMemoryClassNames[c], int64_t(memory.byClass[c]));
    });
    json.attributeArray("parameters", [&] {
      for (const plan::Parameter &parameter : p.parameters())
        json.object([&] {
          json.attribute("name", parameter.name());
          json.attributeArray("shape", [&] {
            for (int64_t d : parameter.shape())
              json.value(d);
          });
          json.attribute("bucket", p.buckets(parameter.bucket()).name());
          json.attribute("offset", int64_t(parameter.offset()));
        });
    });
    json.attributeArray("slots", [&] {
      for (int i = 0; i < p.slots_size(); ++i)
        json.object([&] {
          json.attribute("name", p.slots(i).name());
          json.attribute("class", className(p.slots(i).slot_class()));
          json.attribute("offset", int64_t(memory.slots[i].offset));
          json.attribute("bytes", int64_t(memory.slots[i].bytes));
        });
    });
    json.attributeObject("programs", [&] {
      for (const plan::Program &program : p.programs())
        json.attributeArray(program.name(), [&] {
          for (const plan::Step &step : program.steps())
            json.object([&] {
              json.attribute("name", step.name());
              json.attribute("kind", kindText(p, step));
              json.attribute("layer", step.layer());
              json.attribute("flops", int64_t(step.flops()));
            });
        });
    });
  });
  out << "\n";
}

} // namespace ztc
