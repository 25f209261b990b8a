#include "compiler/Report/Spaces.h"
#include "compiler/Analysis/KeptTensors.h"
#include "compiler/Analysis/LinksInUse.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/HostLaunch.h"
#include "runtime/Memory/StepBytes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc::report {

/// By tensor, in the order of `kept`, what lies in `space`.
static std::vector<SpaceUse::Tensor> tensorsIn(const std::vector<KeptTensor> &kept, plan::Space space) {
  std::vector<SpaceUse::Tensor> tensors;
  for (const KeptTensor &tensor : kept) {
    if (tensors.empty() || tensors.back().name != tensor.name)
      tensors.push_back({tensor.name});
    SpaceUse::Tensor &use = tensors.back();
    ++use.ofBlocks;
    if (tensor.space != space)
      continue;
    ++use.blocks;
    use.bytes += tensor.bytes;
  }
  std::erase_if(tensors, [](const SpaceUse::Tensor &use) { return !use.blocks; });
  return tensors;
}

std::array<SpaceUse, 2> spaceUses(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape) {
  const MoveTraffic traffic = moveTraffic(plan, memory, shape);
  const MachineRates rates = ratesOf(shape);
  SpaceUse host{.name = "host",
                .plan = memory.host,
                .inBytes = traffic.hostIn,
                .outBytes = traffic.hostOut,
                .bytesPerSecond = rates.hostLinkBytes,
                .source = linkSource(shape, false)};
  SpaceUse disk{.name = "disk",
                .plan = memory.disk,
                .inBytes = traffic.diskIn,
                .outBytes = traffic.diskOut,
                .bytesPerSecond = rates.diskLinkBytes,
                .source = linkSource(shape, true)};
  forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool) {
    if (!computesOnHost(step))
      return;
    host.updatedBytes += times * stepBytes(plan, memory, shape, step);
    host.updateSeconds += times * stepSeconds(plan, memory, shape, step, rates);
  });
  const std::vector<KeptTensor> kept = keptTensors(plan);
  host.tensors = tensorsIn(kept, plan::HOST);
  disk.tensors = tensorsIn(kept, plan::DISK);
  for (SpaceUse *use : {&host, &disk})
    use->seconds = double(use->inBytes + use->outBytes) / use->bytesPerSecond;
  return {host, disk};
}

void printSpaces(llvm::raw_ostream &out, const std::array<SpaceUse, 2> &uses) {
  for (const SpaceUse &use : uses) {
    if (!use.plan.bytes)
      continue;
    out << formatv("{0}  {1} ({2} bytes):", use.name, formatSize(use.plan.bytes), use.plan.bytes);
    for (size_t c = 0; c < kMemoryClassCount; ++c)
      if (use.plan.byClass[c])
        out << formatv(" {0} {1},", kMemoryClassNames[c], formatSize(use.plan.byClass[c]));
    out << formatv(" a step moves {0} in and {1} out, about {2:F2} s at {3:F1} GB/s ({4})", formatSize(use.inBytes),
                   formatSize(use.outBytes), use.seconds, use.bytesPerSecond / 1e9, use.source);
    if (use.updatedBytes)
      out << formatv("; the host's cores update there, about {0:F2} s for {1}", use.updateSeconds,
                     formatSize(use.updatedBytes));
    out << "\n";
    if (!use.tensors.empty())
      out << "      kept there for the backward, in so many of the blocks that keep it: "
          << llvm::join(
                 llvm::map_range(use.tensors,
                                 [](const SpaceUse::Tensor &tensor) {
                                   return formatv("{0} {1}/{2}", tensor.name, tensor.blocks, tensor.ofBlocks).str();
                                 }),
                 ", ")
          << "\n";
  }
}

void writeSpaces(llvm::json::OStream &json, const std::array<SpaceUse, 2> &uses) {
  if (!uses[0].plan.bytes && !uses[1].plan.bytes)
    return;
  json.attributeObject("spaces", [&] {
    for (const SpaceUse &use : uses)
      json.attributeObject(use.name, [&] {
        json.attribute("bytes", int64_t(use.plan.bytes));
        json.attributeObject("by_class", [&] {
          for (size_t c = 0; c < kMemoryClassCount; ++c)
            if (use.plan.byClass[c])
              json.attribute(kMemoryClassNames[c], int64_t(use.plan.byClass[c]));
        });
        json.attribute("in_bytes", int64_t(use.inBytes));
        json.attribute("out_bytes", int64_t(use.outBytes));
        json.attribute("cost_model_seconds", use.seconds);
        if (use.updatedBytes) {
          json.attribute("updated_bytes", int64_t(use.updatedBytes));
          json.attribute("cost_model_update_seconds", use.updateSeconds);
        }
        if (!use.tensors.empty())
          json.attributeArray("tensors", [&] {
            for (const SpaceUse::Tensor &tensor : use.tensors)
              json.object([&] {
                json.attribute("tensor", tensor.name);
                json.attribute("blocks", int64_t(tensor.blocks));
                json.attribute("of_blocks", int64_t(tensor.ofBlocks));
                json.attribute("bytes", int64_t(tensor.bytes));
              });
          });
        json.attribute("link_bytes_per_second", use.bytesPerSecond);
        json.attribute("link_source", use.source);
      });
  });
}

} // namespace ztc::report
