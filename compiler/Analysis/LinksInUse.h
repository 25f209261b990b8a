// Rates of links that were measured on this machine, for the cost model.
#pragma once
#include "runtime/Format/MeasuredLinks.h"
#include "runtime/Memory/Planner.h"
#include <string>
#include <vector>

namespace ztc {

/// What was measured takes the place of assumed rates in ratesOf(PlanShape): of memory and of a GPU's link the latest,
/// of a disk the one for `diskFolder`. For a program to call once, before it asks for rates.
void useMeasuredLinks(const std::vector<MeasuredLink> &links, const std::string &diskFolder);

/// The one that ranks of this shape move over, to the host's memory or to the disk; without a kind where none was
/// measured.
const MeasuredLink &linkInUse(const PlanShape &shape, bool isDisk);
/// What the host's cores read and write per second beside each GPU; 0 where it was not measured.
double measuredCoreBytes();
/// "measured 2026-11-24, NVIDIA H100", or "assumed; ztc-run --measure-links measures it".
std::string linkSource(const PlanShape &shape, bool isDisk);

} // namespace ztc
