#include "compiler/Report/Spaces.h"
#include "compiler/Analysis/LinksInUse.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/HostLaunch.h"
#include "runtime/Memory/StepBytes.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc::report {

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
        json.attribute("link_bytes_per_second", use.bytesPerSecond);
        json.attribute("link_source", use.source);
      });
  });
}

} // namespace ztc::report
