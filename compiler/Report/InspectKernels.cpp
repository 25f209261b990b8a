// `ztc inspect --kernels`: what runs, how often, and how much it moves and computes.
#include "compiler/Report/KernelUses.h"
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {
namespace {

std::string countText(const KernelUse &use) {
  std::string text;
  for (const auto &[program, count] : use.launches)
    text += formatv("{0}{1} {2}", text.empty() ? "" : ", ", program, count);
  return text.empty() ? "never launched" : text;
}

std::string amountText(uint64_t bytes, uint64_t flops) {
  return formatv("{0,10} {1,10:f3} GFLOP", formatSize(bytes), double(flops) / 1e9);
}

void sortUses(std::vector<KernelUse> &uses, KernelOrder order) {
  llvm::sort(uses, [order](const KernelUse &a, const KernelUse &b) {
    uint64_t amountA = order == KernelOrder::Flops ? a.flops : a.bytes;
    uint64_t amountB = order == KernelOrder::Flops ? b.flops : b.bytes;
    return amountA != amountB ? amountA > amountB : a.what < b.what;
  });
}

void printVersion(raw_ostream &out, const plan::Kernel::Version &version) {
  out << formatv("      {0}: {1} threads a block, {2} units a block, ", version.target(), version.block_threads(),
                 version.units_per_block());
  if (version.outside() == "cubin") // what it takes of a thread is in it, not in the plan
    out << formatv("{0} of shared memory", formatSize(version.shared_bytes()));
  else
    out << formatv("{0}, {1} of shared memory, {2} of local memory",
                   version.registers() ? formatv("{0} registers", version.registers()).str()
                                       : "registers by the driver",
                   formatSize(version.shared_bytes()), formatSize(version.local_bytes()));
  if (!version.outside().empty())
    out << "; " << version.outside() << " from outside";
  if (std::optional<Occupancy> occupancy = occupancyOf(version))
    out << formatv("; {0} blocks a multiprocessor, {1} % of its threads ({2})", occupancy->blocks, occupancy->percent,
                   occupancy->limit);
  out << "\n";
}

/// The first kernel for which image `number` is a cubin from outside; empty: ztc has made the image.
std::string outsideKernelOf(const plan::Plan &plan, int number) {
  for (const plan::Kernel &kernel : plan.kernels())
    for (const plan::Kernel::Version &version : kernel.versions())
      if (version.outside() == "cubin" && int(version.image()) == number)
        return kernel.name();
  return "";
}

void printKernel(raw_ostream &out, const plan::Kernel &kernel, const KernelUse &use) {
  std::string count = countText(use);
  // Service kernels are called by attention and by the loss, not launched.
  if (!use.calledBy.empty())
    count = formatv("called by library steps ({0}: {1}, {2:f3} GFLOP)", llvm::join(use.calledBy, ", "),
                    formatSize(use.callBytes), double(use.callFlops) / 1e9);
  else if (kernel.form() == "service")
    count = "called by library steps";
  out << formatv("  {0,-40} {1,-18} {2}  {3};", kernel.name(), kernel.form(), amountText(use.bytes, use.flops), count);
  for (const plan::Kernel::Version &version : kernel.versions())
    out << " " << version.target() << (version.outside().empty() ? "" : " (from outside)");
  out << "\n";
  for (const plan::Kernel::Version &version : kernel.versions())
    if (version.block_threads())
      printVersion(out, version);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(kernel.text()).split(lines, '\n', -1, false);
  // Of the group its block: the op around it stands in this report already.
  for (llvm::StringRef line : lines)
    if (!line.contains("= graph.fusion ") && line.trim() != "}")
      out << "      " << line << "\n";
}

std::vector<std::string> kernelNames(const plan::Plan &plan, const CallExecution &execution) {
  std::vector<std::string> names;
  for (uint32_t kernel : execution.kernels)
    names.push_back(kernel < uint32_t(plan.kernels_size()) ? plan.kernels(int(kernel)).name() : "?");
  return names;
}

void printCall(raw_ostream &out, const plan::Plan &plan, const KernelUse &use) {
  out << formatv("  {0,-59} {1}  {2}{3}{4}\n", use.what, amountText(use.bytes, use.flops), countText(use),
                 use.reason.empty() ? "" : ": ", use.reason);
  for (const CallExecution &execution : use.executions) {
    out << formatv("      {0,-4} {1}: {2}", execution.where, execution.library, execution.reason);
    if (!execution.kernels.empty())
      out << formatv(" ({0})", llvm::join(kernelNames(plan, execution), ", "));
    out << "\n";
  }
}

void addLaunches(llvm::json::OStream &json, const KernelUse &use) {
  json.attribute("bytes", int64_t(use.bytes));
  json.attribute("flops", int64_t(use.flops));
  json.attributeObject("launches", [&] {
    for (const auto &[program, count] : use.launches)
      json.attribute(program, int64_t(count));
  });
}

void addVersion(llvm::json::OStream &json, const plan::Kernel::Version &version) {
  json.object([&] {
    json.attribute("target", version.target());
    if (!version.outside().empty())
      json.attribute("outside", version.outside());
    if (!version.block_threads())
      return;
    json.attribute("block_threads", int64_t(version.block_threads()));
    json.attribute("units_per_block", int64_t(version.units_per_block()));
    json.attribute("registers", int64_t(version.registers()));
    json.attribute("shared_bytes", int64_t(version.shared_bytes()));
    json.attribute("local_bytes", int64_t(version.local_bytes()));
    if (std::optional<Occupancy> occupancy = occupancyOf(version)) {
      json.attribute("blocks_per_multiprocessor", int64_t(occupancy->blocks));
      json.attribute("occupancy_percent", int64_t(occupancy->percent));
      json.attribute("occupancy_limit", occupancy->limit);
    }
  });
}

} // namespace

void printPlanKernels(raw_ostream &out, const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                      KernelOrder order) {
  KernelUses uses = collectKernelUses(plan, shape, memory);
  sortUses(uses.kernels, order);
  sortUses(uses.calls, order);
  uint64_t bytes = 0, flops = 0;
  for (const std::vector<KernelUse> &list : {uses.kernels, uses.calls})
    for (const KernelUse &use : list) {
      bytes += use.bytes;
      flops += use.flops;
    }
  out << "bytes and flops: of one micro-step and one update, all launches together; operands once each, without the "
         "scratch of library calls\n";
  out << formatv("  {0,-59} {1}\n", "all", amountText(bytes, flops));
  out << "generated kernels\n";
  for (const KernelUse &use : uses.kernels)
    printKernel(out, plan.kernels(use.kernel), use);
  out << "library calls\n";
  for (const KernelUse &use : uses.calls)
    printCall(out, plan, use);
  out << "images\n";
  for (int i = 0; i < plan.images_size(); ++i) {
    const std::string of = outsideKernelOf(plan, i);
    out << formatv("  {0,-12} {1} bytes{2}{3}\n", plan.images(i).target(), plan.images(i).data().size(),
                   of.empty() ? "" : ", a cubin from outside for ", of);
  }
}

void addKernelsJson(llvm::json::OStream &json, const plan::Plan &plan, const PlanShape &shape,
                    const MemoryPlan &memory) {
  const KernelUses uses = collectKernelUses(plan, shape, memory);
  json.attributeArray("kernels", [&] {
    for (const KernelUse &use : uses.kernels)
      json.object([&] {
        const plan::Kernel &kernel = plan.kernels(use.kernel);
        json.attribute("name", kernel.name());
        json.attribute("form", kernel.form());
        addLaunches(json, use);
        if (!use.calledBy.empty()) {
          json.attribute("called_by", llvm::json::Array(use.calledBy));
          json.attribute("call_bytes", int64_t(use.callBytes));
          json.attribute("call_flops", int64_t(use.callFlops));
        }
        json.attributeArray("versions", [&] {
          for (const plan::Kernel::Version &version : kernel.versions())
            addVersion(json, version);
        });
        json.attribute("text", kernel.text());
      });
  });
  json.attributeArray("calls", [&] {
    for (const KernelUse &use : uses.calls)
      json.object([&] {
        json.attribute("call", use.what);
        json.attribute("reason", use.reason);
        addLaunches(json, use);
        json.attributeArray("executions", [&] {
          for (const CallExecution &execution : use.executions)
            json.object([&] {
              json.attribute("where", execution.where);
              json.attribute("library", execution.library);
              json.attribute("reason", execution.reason);
              json.attribute("kernels", llvm::json::Array(kernelNames(plan, execution)));
            });
        });
      });
  });
  json.attributeArray("images", [&] {
    for (int i = 0; i < plan.images_size(); ++i)
      json.object([&] {
        json.attribute("target", plan.images(i).target());
        json.attribute("bytes", int64_t(plan.images(i).data().size()));
        if (const std::string of = outsideKernelOf(plan, i); !of.empty())
          json.attribute("outside", of);
      });
  });
}

} // namespace ztc::report
