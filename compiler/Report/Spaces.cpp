#include "compiler/Report/Spaces.h"
#include "runtime/Core/Sizes.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc::report {

std::array<SpaceUse, 2> spaceUses(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape) {
  const MoveTraffic traffic = moveTraffic(plan, memory, shape);
  const MachineRates rates = ratesOf(shape);
  SpaceUse host{"host", memory.host, traffic.hostIn, traffic.hostOut, 0};
  SpaceUse disk{"disk", memory.disk, traffic.diskIn, traffic.diskOut, 0};
  host.seconds = double(host.inBytes + host.outBytes) / rates.hostLinkBytes;
  disk.seconds = double(disk.inBytes + disk.outBytes) / rates.diskLinkBytes;
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
    out << formatv(" a step moves {0} in and {1} out, about {2:F2} s\n", formatSize(use.inBytes),
                   formatSize(use.outBytes), use.seconds);
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
      });
  });
}

} // namespace ztc::report
