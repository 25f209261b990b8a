// Moves: what leaves a lower space arrives, is worked on where the computation has waited for it, and goes back; on
// every device.
#include "runtime/Device/LowerMemory.h"
#include "tests/conformance/StepRunner.h"

namespace ztc::test {
namespace {

constexpr uint64_t kBytes = 100000;

/// Two slots in the host's memory, two on the device: from -> a, a copied to b, b -> to.
plan::Plan roundTrip() {
  plan::Plan plan;
  for (plan::Space space : {plan::HOST, plan::HOST, plan::DEVICE, plan::DEVICE}) {
    plan::Slot &slot = *plan.add_slots();
    slot.set_space(space);
    slot.set_persistent(space != plan::DEVICE);
    slot.set_slot_class(plan::OPTIMIZER);
    slot.mutable_size()->set_elements(kBytes);
    slot.mutable_size()->set_element_bytes(1);
  }
  enum { From, To, A, B };
  plan::Program &program = *plan.add_programs();
  program.set_name("update");
  const auto step = [&](const char *name, uint32_t stream) {
    plan::Step &made = *program.add_steps();
    made.set_name(name);
    made.set_stream(stream);
    return &made;
  };
  const auto tie = [&](uint32_t event, uint32_t from, uint32_t to, uint32_t slot) {
    step("record", from)->mutable_record()->set_event(event);
    plan::Step &wait = *step("wait", to);
    wait.mutable_wait()->set_event(event);
    wait.add_operands()->set_slot(slot);
  };
  const auto both = [](plan::Step &made, uint32_t from, uint32_t to) {
    made.add_operands()->set_slot(from);
    plan::Operand &target = *made.add_operands();
    target.set_slot(to);
    target.set_access(plan::Operand::WRITE);
  };
  tie(0, 0, 2, A);
  plan::Step &in = *step("in", 2);
  in.mutable_move();
  both(in, From, A);
  tie(1, 2, 0, A);
  plan::Step &copy = *step("copy", 0);
  copy.mutable_copy()->set_bytes(kBytes);
  both(copy, A, B);
  tie(2, 0, 2, B);
  plan::Step &out = *step("out", 2);
  out.mutable_move();
  both(out, B, To);
  tie(3, 2, 0, B);
  return plan;
}

TEST(MoveConformance, ThereAndBack) {
  const plan::Plan plan = roundTrip();
  auto device = testDevice({})(2);
  ASSERT_TRUE(device.isOk()) << device.status().message();
  const PlanShape shape{1, 1, (*device)->threads()};
  const auto memory = planMemory(plan, shape);
  ASSERT_TRUE(memory.isOk());
  EXPECT_EQ(memory->host.bytes, 2 * ((kBytes + 255) / 256 * 256));
  auto lower = LowerMemory::create(*memory, (*device)->memory(), nullptr);
  ASSERT_TRUE(lower.isOk()) << lower.status().message();
  auto executor = Executor::create(plan, *memory, shape, 0, **device, nullptr, nullptr, lower->get());
  ASSERT_TRUE(executor.isOk()) << executor.status().message();
  auto arena = (*device)->memory().allocateArena(memory->arenaBytes);
  ASSERT_TRUE(arena.isOk());
  ASSERT_TRUE((*executor)->initialize(**arena).isOk());
  std::vector<uint8_t> values(kBytes), found(kBytes);
  // The first execution is step by step, the second recorded where the device records, the third what was recorded.
  for (uint8_t round = 1; round <= 3; ++round) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = uint8_t(i * 7 + i / 251 + round);
    ASSERT_TRUE((*executor)->writeSlot(0, 0, values.data(), kBytes).isOk());
    const Status status = (*executor)->execute("update");
    ASSERT_TRUE(status.isOk()) << status.message();
    ASSERT_TRUE((*executor)->readSlot(1, 0, found.data(), kBytes).isOk());
    EXPECT_EQ(found, values) << "round " << int(round);
  }
  const MovedBytes moved = (*lower)->moved();
  if (!onGpu()) { // a graph counts nothing
    EXPECT_GE(moved.hostIn, 3 * kBytes);
    EXPECT_EQ(moved.hostOut, moved.hostIn);
  }
  executor->reset();
}

} // namespace
} // namespace ztc::test
