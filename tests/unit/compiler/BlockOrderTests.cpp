// The order of a block while its ops move.
#include "compiler/Support/BlockOrder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace {

struct MovedBlock {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<Operation *> ops;

  explicit MovedBlock(int count) {
    context.loadDialect<arith::ArithDialect>();
    OpBuilder builder(&context);
    module = ModuleOp::create(builder, builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
    for (int i = 0; i < count; ++i)
      ops.push_back(arith::ConstantIndexOp::create(builder, builder.getUnknownLoc(), i));
  }
  Block &block() { return *module->getBody(); }
  /// Whether each op is before the next one.
  bool isTrue(ztc::BlockOrder &order) {
    for (Operation &op : block())
      if (Operation *next = op.getNextNode(); next && (!order.isBefore(&op, next) || order.isBefore(next, &op)))
        return false;
    return true;
  }
};

TEST(BlockOrder, FollowsMovesToAnyPlace) {
  MovedBlock moved(40);
  ztc::BlockOrder order(moved.block());
  std::mt19937 generator(7);
  for (int i = 0; i < 2000; ++i) {
    Operation *op = moved.ops[generator() % moved.ops.size()], *to = moved.ops[generator() % moved.ops.size()];
    i % 2 ? order.moveBefore(op, to) : order.moveAfter(op, to);
    if (op != to) {
      EXPECT_EQ(i % 2 ? op->getNextNode() : op->getPrevNode(), to);
    }
    ASSERT_TRUE(moved.isTrue(order)) << "after move " << i;
  }
}

TEST(BlockOrder, HasRoomAtOnePlaceAndAtBothEnds) {
  MovedBlock moved(30);
  ztc::BlockOrder order(moved.block());
  for (int i = 0; i < 3000; ++i) {
    order.moveAfter(moved.ops[1 + i % 29], moved.ops[0]);
    order.moveBefore(moved.ops[1 + i % 29], &moved.block().front());
    order.moveAfter(moved.ops[i % 29], &moved.block().back());
  }
  EXPECT_TRUE(moved.isTrue(order));
}

TEST(BlockOrder, LearnsOfNewOps) {
  MovedBlock moved(4);
  ztc::BlockOrder order(moved.block());
  OpBuilder builder(moved.ops[2]);
  Operation *added = arith::ConstantIndexOp::create(builder, builder.getUnknownLoc(), 9);
  EXPECT_TRUE(order.isBefore(moved.ops[1], added));
  order.forget(added);
  added->erase();
  EXPECT_TRUE(moved.isTrue(order));
}

} // namespace
