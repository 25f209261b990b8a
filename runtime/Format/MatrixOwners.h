// Which rank makes which matrix's direction orthogonal, where Muon updates a bucket.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ztc::plan {
class Plan;
class Step;
} // namespace ztc::plan

namespace ztc {

/// Steps of the Newton-Schulz iteration that makes a direction orthogonal, as torch.optim.Muon has them.
inline constexpr int kNewtonSchulzSteps = 5;

/// The floating-point operations of that for a matrix of this shape (rows, columns), or for a stack of such.
uint64_t orthogonalizationFlops(std::span<const int64_t> shape);

/// The rank that each of several tasks is given: the costliest first, each to the rank that has the least so far, the
/// lowest of equals. A function of the costs and the number of ranks alone.
std::vector<uint32_t> balancedOwners(std::span<const uint64_t> costs, uint32_t world);

/// Whether a rank executes the step: all do but where it is of one parameter's matrix, which one rank owns among those
/// of its bucket.
bool executesStep(const plan::Plan &plan, const plan::Step &step, uint32_t rank, uint32_t world);

/// How much of the bucket's work the busiest rank does, of a step that belongs to a parameter's owner; 1 for others,
/// and 0 for what an owner leaves to the others.
double busiestShare(const plan::Plan &plan, const plan::Step &step, uint32_t world);

} // namespace ztc
