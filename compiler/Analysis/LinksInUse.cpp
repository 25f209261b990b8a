#include "compiler/Analysis/LinksInUse.h"
#include "compiler/Analysis/GpuModels.h"

namespace ztc {
namespace {

/// Of each kind the one to go by.
struct LinksInUse {
  MeasuredLink memory, cores, gpu, disk;
};

LinksInUse &linksInUse() {
  static LinksInUse links;
  return links;
}

} // namespace

void useMeasuredLinks(const std::vector<MeasuredLink> &links, const std::string &diskFolder) {
  LinksInUse &used = linksInUse();
  used = {};
  for (const MeasuredLink &link : links) {
    if (link.kind == "memory")
      used.memory = link;
    else if (link.kind == "cores")
      used.cores = link;
    else if (link.kind == "gpu")
      used.gpu = link;
    else if (link.kind == "disk" && !diskFolder.empty() && link.name == diskFolder)
      used.disk = link;
  }
}

const MeasuredLink &linkInUse(const PlanShape &shape, bool isDisk) {
  const LinksInUse &used = linksInUse();
  if (isDisk)
    return used.disk;
  // Another GPU than the one that is asked about says nothing.
  static const MeasuredLink kNone;
  if (const GpuModel *model = gpuModelInUse(); !shape.threads && model && !isOfModel(used.gpu.name, *model))
    return kNone;
  return shape.threads ? used.memory : used.gpu;
}

double measuredCoreBytes() {
  return linksInUse().cores.inBytesPerSecond;
}

std::string linkSource(const PlanShape &shape, bool isDisk) {
  const MeasuredLink &link = linkInUse(shape, isDisk);
  if (!link.kind.empty())
    return "measured " + link.date + ", " + link.name;
  const GpuModel *model = isDisk || shape.threads ? nullptr : gpuModelInUse();
  return (model ? "assumed of " + std::string(model->name) : "assumed") + "; ztc-run --measure-links measures it";
}

} // namespace ztc
