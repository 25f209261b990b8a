// Which rank makes which matrix orthogonal.
#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/plan.pb.h"
#include <gtest/gtest.h>

namespace ztc {
namespace {

TEST(MatrixOwners, OperationsOfAShape) {
  const std::vector<int64_t> wide{4, 8}, tall{8, 4}, stack{3, 4, 8}, vector{8};
  // Five times 4 4 4 8 + 2 4 4 4 + 3 4 4 + 2 4 8, and 3 4 8 for the norm.
  EXPECT_EQ(orthogonalizationFlops(wide), 5u * (512 + 128 + 48 + 64) + 96);
  EXPECT_EQ(orthogonalizationFlops(tall), orthogonalizationFlops(wide));
  EXPECT_EQ(orthogonalizationFlops(stack), 3 * orthogonalizationFlops(wide));
  EXPECT_EQ(orthogonalizationFlops(vector), 0u);
}

TEST(MatrixOwners, TheCostliestGoesToTheLeastLoaded) {
  const std::vector<uint64_t> costs{1, 5, 3, 3, 1};
  EXPECT_EQ(balancedOwners(costs, 1), std::vector<uint32_t>(5, 0));
  EXPECT_EQ(balancedOwners(costs, 2), (std::vector<uint32_t>{0, 0, 1, 1, 0}));
  EXPECT_EQ(balancedOwners(costs, 8), (std::vector<uint32_t>{3, 0, 1, 2, 4}));
}

TEST(MatrixOwners, AStepIsExecutedByOneRankOrByTheOthers) {
  plan::Plan plan;
  for (int64_t rows : {8, 16, 4}) {
    plan::Parameter &parameter = *plan.add_parameters();
    parameter.set_bucket(rows == 4 ? 1 : 0); // the last one lies elsewhere and counts for nothing
    parameter.add_shape(rows);
    parameter.add_shape(8);
  }
  plan::Step all, owned, others;
  owned.set_owned_parameter(1);
  others.set_owned_parameter(1);
  others.set_unless_owner(true);
  for (uint32_t world : {1u, 2u, 4u}) {
    unsigned owners = 0;
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_TRUE(executesStep(plan, all, rank, world));
      EXPECT_NE(executesStep(plan, owned, rank, world), executesStep(plan, others, rank, world));
      owners += executesStep(plan, owned, rank, world);
    }
    EXPECT_EQ(owners, 1u) << world;
  }
  // Of two matrices the larger one is most of the work.
  const double large = double(orthogonalizationFlops(std::vector<int64_t>{16, 8})),
               small = double(orthogonalizationFlops(std::vector<int64_t>{8, 8}));
  EXPECT_DOUBLE_EQ(busiestShare(plan, owned, 1), 1);
  EXPECT_DOUBLE_EQ(busiestShare(plan, owned, 2), large / (large + small));
  EXPECT_DOUBLE_EQ(busiestShare(plan, others, 2), 0);
  EXPECT_DOUBLE_EQ(busiestShare(plan, all, 2), 1);
}

} // namespace
} // namespace ztc
