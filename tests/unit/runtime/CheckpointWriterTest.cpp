// A checkpoint that is written while its state is wanted back, on a memory that holds up its reader.
#include "runtime/Checkpoint/CheckpointWriter.h"
#include "tests/unit/runtime/Scratch.h"
#include "tests/unit/runtime/ToyPlan.h"
#include <atomic>
#include <gmock/gmock.h>
#include <latch>
#include <thread>

namespace ztc::test {
namespace {

using ::testing::HasSubstr;

/// All slots hold ones; a read of slot `held` waits for the latch.
class HeldMemory final : public StateMemory {
public:
  std::latch letGo{1};
  uint32_t held = toy::Squares;
  Status read(uint32_t slot, uint64_t, void *to, uint64_t bytes) override {
    if (slot == held)
      letGo.wait();
    if (slot == fails)
      return internalError("slot lost");
    std::fill_n(static_cast<float *>(to), bytes / sizeof(float), 1.0f);
    return Status::ok();
  }
  Status write(uint32_t, uint64_t, const void *, uint64_t) override { return internalError("nothing is written"); }
  uint32_t fails = UINT32_MAX;
};

class CheckpointWriting : public ::testing::Test {
protected:
  Scratch scratch;
  plan::Plan plan = toy::makePlan(1, 4);
  HeldMemory memory;
  std::vector<std::byte> staging = std::vector<std::byte>(kMinimumStagingBytes);
  StateContext context{plan, memory, staging};
  TrainerState state;
  CheckpointWriting() { state.step = 7; }
};

TEST_F(CheckpointWriting, TrainingGoesOnUntilTheStateChanges) {
  CheckpointWriter writer(true);
  EXPECT_FALSE(writer.isInFlight());
  writer.awaitReading(); // of nothing
  writer.begin(context, state, scratch.path("saves"));
  EXPECT_TRUE(writer.isInFlight());
  EXPECT_FALSE(writer.isWritten());
  std::atomic<bool> hasRead = false;
  std::thread update([&] {
    writer.awaitReading();
    hasRead = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(hasRead);
  memory.letGo.count_down();
  update.join();
  const StatusOr<std::string> written = writer.end();
  ASSERT_TRUE(written.isOk()) << written.status().message();
  EXPECT_EQ(*written, scratch.path("saves") + "/step-00000007");
  EXPECT_FALSE(writer.isInFlight());
  const StatusOr<FoundCheckpoint> found = findCheckpoint(scratch.path("saves"), staging);
  ASSERT_TRUE(found.isOk()) << found.status().message();
  EXPECT_EQ(found->state.step, 7u);
}

TEST_F(CheckpointWriting, WhoeverWaitsIsToldOfAFailureToo) {
  memory.fails = toy::Momentum;
  memory.letGo.count_down();
  CheckpointWriter writer(true);
  writer.begin(context, state, scratch.path("saves"));
  writer.awaitReading();
  const StatusOr<std::string> written = writer.end();
  ASSERT_FALSE(written.isOk());
  EXPECT_THAT(written.status().message(), HasSubstr("checkpoint of step 7 was not saved"));
}

TEST_F(CheckpointWriting, WhereNothingIsGainedBeginDoesIt) {
  memory.letGo.count_down();
  CheckpointWriter writer(false);
  writer.begin(context, state, scratch.path("saves"));
  EXPECT_TRUE(writer.isWritten());
  writer.awaitReading();
  EXPECT_TRUE(writer.end().isOk());
}

TEST(CheckpointWriter, MicroStepsThatWriteStateAreSeen) {
  plan::Plan plan = toy::makePlan(1, 4);
  EXPECT_TRUE(onlyUpdateWritesState(plan));
  for (plan::Program &program : *plan.mutable_programs())
    if (program.name() == "microstep")
      for (plan::Operand &operand : *program.mutable_steps(0)->mutable_operands())
        if (operand.slot() == toy::Weights)
          operand.set_access(plan::Operand::READ_WRITE);
  EXPECT_FALSE(onlyUpdateWritesState(plan));
}

} // namespace
} // namespace ztc::test
