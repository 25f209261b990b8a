#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/plan.pb.h"
#include <algorithm>
#include <numeric>

namespace ztc {

uint64_t orthogonalizationFlops(std::span<const int64_t> shape) {
  if (shape.size() < 2)
    return 0;
  uint64_t matrices = 1;
  for (const int64_t dimension : shape.first(shape.size() - 2))
    matrices *= uint64_t(dimension);
  const uint64_t last = uint64_t(shape.back()), before = uint64_t(shape[shape.size() - 2]);
  const uint64_t rows = std::min(before, last), columns = std::max(before, last);
  // A = X X^T, A A and B X, then what is done element by element.
  const uint64_t step = 4 * rows * rows * columns + 2 * rows * rows * rows + 3 * rows * rows + 2 * rows * columns;
  return matrices * (kNewtonSchulzSteps * step + 3 * rows * columns);
}

std::vector<uint32_t> balancedOwners(std::span<const uint64_t> costs, uint32_t world) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, [&](size_t a, size_t b) { return costs[a] != costs[b] ? costs[a] > costs[b] : a < b; });
  std::vector<uint64_t> loads(std::max<uint32_t>(world, 1));
  std::vector<uint32_t> owners(costs.size());
  for (const size_t task : order) {
    const auto least = std::ranges::min_element(loads);
    owners[task] = uint32_t(least - loads.begin());
    *least += costs[task];
  }
  return owners;
}

namespace {

/// The matrices of the bucket that the parameter lies in.
struct BucketMatrices {
  std::vector<uint64_t> costs;
  size_t own = 0; ///< the parameter's place among them

  BucketMatrices(const plan::Plan &plan, uint32_t parameter) {
    const uint32_t bucket = plan.parameters(int(parameter)).bucket();
    for (uint32_t i = 0; i < uint32_t(plan.parameters_size()); ++i) {
      const plan::Parameter &other = plan.parameters(int(i));
      if (other.bucket() != bucket)
        continue;
      if (i == parameter)
        own = costs.size();
      costs.push_back(orthogonalizationFlops({other.shape().data(), size_t(other.shape_size())}));
    }
  }
};

} // namespace

bool executesStep(const plan::Plan &plan, const plan::Step &step, uint32_t rank, uint32_t world) {
  if (!step.owned_parameter() || step.owned_parameter() > uint32_t(plan.parameters_size()))
    return true;
  const BucketMatrices matrices(plan, step.owned_parameter() - 1);
  const bool isOwner = balancedOwners(matrices.costs, world)[matrices.own] == rank;
  return isOwner != step.unless_owner();
}

double busiestShare(const plan::Plan &plan, const plan::Step &step, uint32_t world) {
  if (!step.owned_parameter() || step.owned_parameter() > uint32_t(plan.parameters_size()))
    return 1;
  if (step.unless_owner())
    return 0;
  const BucketMatrices matrices(plan, step.owned_parameter() - 1);
  const std::vector<uint32_t> owners = balancedOwners(matrices.costs, world);
  std::vector<uint64_t> loads(std::max<uint32_t>(world, 1));
  uint64_t all = 0;
  for (size_t i = 0; i < owners.size(); ++i) {
    loads[owners[i]] += matrices.costs[i];
    all += matrices.costs[i];
  }
  return all ? double(*std::ranges::max_element(loads)) / double(all) : 1;
}

} // namespace ztc
