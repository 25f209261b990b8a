// Moves between spaces: what the validator holds them to, where the planner puts slots, and an update that goes through
// two windows, on the host.
#include "Scratch.h"
#include "runtime/Device/LowerMemory.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/KernelSignature.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

namespace ztc::test::moves {
namespace {

constexpr uint64_t kElements = 1000, kPiece = 256; // four pieces, the last one short
enum Slot : uint32_t { Parameter, Gradient, State, Window0, Window1, Narrow };

/// buffers {gradient, state}: state = 2 state + gradient + global index.
void descend(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin * 64; i < std::min(end * 64, scalars[0]); ++i) {
    float &state = static_cast<float *>(buffers[1])[i];
    state = 2 * state + static_cast<const float *>(buffers[0])[i] + float(scalars[1] + i);
  }
}

/// One bucket whose state lies in `space`; @update goes over it piece by piece: on the device through two windows, or
/// on the host's cores, where the gradient comes down through one.
class Streaming {
public:
  explicit Streaming(plan::Space space, bool onHost = false) {
    plan.mutable_model()->set_batch(1), plan.mutable_model()->set_seq(1), plan.mutable_model()->set_vocabulary(1);
    for (auto [name, slotClass] :
         {std::pair("parameter", plan::PARAMETERS), {"gradient", plan::GRADIENTS}, {"state", plan::OPTIMIZER}})
      sharded(addSlot(plan, name, slotClass, kElements, true));
    plan.mutable_slots(State)->set_space(space);
    addSlot(plan, "window0", plan::WORKSPACE, 1024, false);
    addSlot(plan, "window1", plan::WORKSPACE, 1024, false);
    addSlot(plan, "narrow", plan::WORKSPACE, kPiece - 64, false);
    plan::Bucket &bucket = *plan.add_buckets();
    bucket.set_name("b"), bucket.set_elements(kElements), bucket.set_trainable(true);
    bucket.set_parameter_slot(Parameter), bucket.set_gradient_slot(Gradient), bucket.set_master_slot(kAbsent);
    addState(bucket, "state", State);
    plan.add_images()->set_target("x86-64-v3"), plan.mutable_images(0)->set_data("code");
    plan::Kernel &kernel = *plan.add_kernels();
    kernel.set_name("descend");
    kernel.add_versions()->set_target("x86-64-v3");
    bindNothing(*plan.mutable_bindings());
    update = plan.add_programs();
    update->set_name("update");
    join();
    if (onHost)
      updateOnHost();
    else
      updateOnDevice();
    recordKernelSignatures(plan);
  }

  Status validate() const { return validatePlan(plan); }
  /// The first step of update of this kind and, of moves, direction.
  plan::Step &first(plan::Step::KindCase kind) {
    return *std::ranges::find_if(*update->mutable_steps(),
                                 [&](const plan::Step &step) { return step.kind_case() == kind; });
  }

  plan::Plan plan;
  plan::Program *update;

private:
  void updateOnDevice() {
    moveIn(0);
    moveIn(1);
    for (uint32_t turn = 0; turn < 4; ++turn) {
      wait(0, arrived[turn], {window(turn)});
      plan::Step &made = launch(turn, 0);
      addOperand(made, Gradient, plan::Operand::READ);
      setPiece(*made.mutable_operands(0), turn);
      addOperand(made, window(turn), plan::Operand::READ_WRITE);
      join();
      move(turn, window(turn), State, /*isOut=*/true);
      if (turn + 2 < 4)
        moveIn(turn + 2);
    }
    const uint32_t last = record(2);
    wait(0, last, {Window0, Window1});
  }
  void updateOnHost() {
    plan.mutable_slots(Window0)->set_space(plan::HOST), plan.mutable_slots(Window0)->set_persistent(true);
    for (uint32_t piece = 0; piece < 4; ++piece) {
      plan::Step &down = step(2);
      down.mutable_move();
      addOperand(down, Gradient, plan::Operand::READ);
      addOperand(down, Window0, plan::Operand::WRITE);
      setPiece(*down.mutable_operands(0), piece);
      plan::Step &made = launch(piece, 2);
      addOperand(made, Window0, plan::Operand::READ);
      addOperand(made, State, plan::Operand::READ_WRITE);
      setPiece(*made.mutable_operands(1), piece);
    }
    wait(0, record(2), {Gradient});
  }
  static uint32_t window(uint32_t turn) { return turn % 2 ? Window1 : Window0; }
  void sharded(uint32_t slot) { plan.mutable_slots(int(slot))->mutable_size()->set_kind(plan::SizeForm::SHARD); }
  plan::Step &step(uint32_t stream) {
    plan::Step &made = *update->add_steps();
    made.set_name("step " + std::to_string(update->steps_size()));
    made.set_stream(stream);
    return made;
  }
  uint32_t record(uint32_t stream) {
    step(stream).mutable_record()->set_event(events);
    return events++;
  }
  void wait(uint32_t stream, uint32_t event, const std::vector<uint32_t> &slots) {
    plan::Step &made = step(stream);
    made.mutable_wait()->set_event(event);
    for (uint32_t slot : slots)
      addOperand(made, slot, plan::Operand::READ_WRITE);
  }
  void join() { wait(2, record(0), {}); }
  static void setPiece(plan::Operand &operand, uint32_t piece) {
    operand.set_piece(piece);
    operand.set_piece_elements(kPiece);
  }
  void move(uint32_t piece, uint32_t device, uint32_t lower, bool isOut) {
    plan::Step &made = step(2);
    made.mutable_move();
    addOperand(made, isOut ? device : lower, plan::Operand::READ);
    addOperand(made, isOut ? lower : device, plan::Operand::WRITE);
    setPiece(*made.mutable_operands(isOut ? 1 : 0), piece);
  }
  void moveIn(uint32_t turn) {
    move(turn, window(turn), State, false);
    arrived.push_back(record(2));
  }
  plan::Step &launch(uint32_t piece, uint32_t stream) {
    plan::Step &made = step(stream);
    plan::Launch &launch = *made.mutable_launch();
    launch.set_flat(true), launch.set_flat_block(64), launch.set_piece(piece), launch.set_piece_elements(kPiece);
    return made;
  }
  uint32_t events = 0;
  std::vector<uint32_t> arrived;
};

TEST(Move, AStreamedUpdateIsValid) {
  EXPECT_OK(Streaming(plan::DISK).validate());
  EXPECT_OK(Streaming(plan::HOST).validate());
  EXPECT_OK(Streaming(plan::HOST, /*onHost=*/true).validate());
}

/// The message that a broken plan gets.
template <typename Break> std::string messageOfBroken(Break breakIt, Streaming made = Streaming(plan::DISK)) {
  breakIt(made);
  return messageOf(made.validate());
}

void has(const std::string &message, const char *part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Move, TheValidatorHoldsItToItsForm) {
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands()->RemoveLast(); }),
      "pairs are needed");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).set_stream(0); }), "stream of moves");
  has(messageOfBroken(
          [](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(0)->set_access(plan::Operand::WRITE); }),
      "what is read and what is written");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(1)->set_slot(State); }),
      "one on the device and one below");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(1)->set_slot(Narrow); }),
      "bytes, 1024 are needed");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(1)->set_slot(Parameter); }),
      "not a window of fixed size");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(1)->set_offset(64); }),
      "parts that no move takes");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(0)->set_piece_elements(100); }),
      "piece 0 of 100");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kLaunch).mutable_operands(1)->set_slot(State); }),
      "not on the device");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kLaunch).mutable_launch()->set_piece(1); }),
      "not the piece");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kLaunch).mutable_launch()->set_flat_block(100); }),
      "piece 0 of 256");
  has(messageOfBroken([](Streaming &s) { s.plan.mutable_slots(State)->set_persistent(false); }), "persistent");
  has(messageOfBroken([](Streaming &s) { s.first(plan::Step::kLaunch).set_stream(2); }), "not in the host's memory");
  has(messageOfBroken([](Streaming &s) {
        s.first(plan::Step::kLaunch).clear_operands();
        s.first(plan::Step::kLaunch).mutable_fill();
        s.first(plan::Step::kFill).set_stream(2);
        addOperand(s.first(plan::Step::kFill), Window0, plan::Operand::WRITE);
      }),
      "not a move");
}

TEST(Move, TheHostsCoresWorkInItsMemoryAlone) {
  const auto message = [](auto breakIt) { return messageOfBroken(breakIt, Streaming(plan::HOST, /*onHost=*/true)); };
  has(message([](Streaming &s) { s.plan.mutable_slots(State)->set_space(plan::DISK); }), "not in the host's memory");
  has(message([](Streaming &s) { s.first(plan::Step::kLaunch).set_stream(0); }), "not on the device");
  has(message([](Streaming &s) { s.first(plan::Step::kLaunch).mutable_launch()->set_accumulate(plan::ADD); }),
      "adds to its results");
  has(message([](Streaming &s) { s.first(plan::Step::kMove).mutable_operands(1)->set_piece_elements(kPiece); }),
      "piece 0 of 256");
  has(message([](Streaming &s) { s.update->mutable_steps()->RemoveLast(); }), "ends while something moves");
}

TEST(Move, TheValidatorHoldsItToItsOrder) {
  const auto stepsOf = [](Streaming &s, plan::Step::KindCase kind, uint32_t stream) {
    std::vector<int> found;
    for (int i = 0; i < s.update->steps_size(); ++i)
      if (s.update->steps(i).kind_case() == kind && s.update->steps(i).stream() == stream)
        found.push_back(i);
    return found;
  };
  const auto drop = [](Streaming &s, int step) { s.update->mutable_steps()->DeleteSubrange(step, 1); };
  // Computing on what has not arrived.
  has(messageOfBroken([&](Streaming &s) { drop(s, stepsOf(s, plan::Step::kWait, 0)[0]); }), "has not waited");
  // Moving out what is still computed.
  has(messageOfBroken([&](Streaming &s) { drop(s, stepsOf(s, plan::Step::kWait, 2)[1]); }), "has not waited");
  // A slot's first move before all that had its bytes is done.
  has(messageOfBroken([&](Streaming &s) {
        plan::Step fill;
        fill.set_name("fill"), fill.mutable_fill();
        addOperand(fill, Parameter, plan::Operand::WRITE);
        *s.update->add_steps() = fill;
        for (int i = s.update->steps_size() - 1; i > 2; --i)
          s.update->mutable_steps()->SwapElements(i, i - 1);
      }),
      "has not waited");
  // Slots that moved die at the wait that names them.
  has(messageOfBroken(
          [&](Streaming &s) { s.update->mutable_steps(stepsOf(s, plan::Step::kWait, 0)[0])->clear_operands(); }),
      "does not name slot");
  has(messageOfBroken([&](Streaming &s) { drop(s, s.update->steps_size() - 1); }), "ends while something moves");
}

TEST(Move, EachSpaceIsLaidOutForItself) {
  Streaming made(plan::DISK);
  const auto memory = planMemory(made.plan, {});
  ASSERT_OK(memory.status());
  EXPECT_EQ(memory->disk.bytes, 4096u); // whole blocks
  EXPECT_EQ(memory->disk.byClass[size_t(plan::OPTIMIZER) - 1], 4096u);
  EXPECT_EQ(memory->host.bytes, 0u);
  EXPECT_EQ(memory->byClass[size_t(plan::OPTIMIZER) - 1], 0u);
  for (uint32_t slot : {Parameter, Gradient, Window0, Window1})
    EXPECT_EQ(memory->slots[slot].offset % kDirectMemoryAlignment, 0u);
  Streaming host(plan::HOST);
  const auto beside = planMemory(host.plan, {.world = 3});
  EXPECT_EQ(beside->host.bytes, 1536u); // ceil(1000 / 192) * 64 elements
}

/// The states after two updates, of all ranks in turn.
std::vector<float> statesAfterTwo(plan::Space space, const char *engine, uint32_t world, bool onHost = false) {
  const Scratch scratch;
  Streaming made(space, onHost);
  made.plan.clear_images(); // the test's own kernel is called
  std::vector<float> all;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const PlanShape shape{world, 1, 2};
    const MemoryPlan memory = *planMemory(made.plan, shape);
    auto device = createHostDevice({2, {{"descend", descend}}});
    std::unique_ptr<DiskSpace> disk;
    if (memory.disk.bytes) {
      auto file = DiskSpace::create({.folder = scratch.path(), .run = "t", .engine = engine}, memory.disk.bytes);
      if (!file.isOk())
        return {};
      disk = std::move(*file);
    }
    auto lower = LowerMemory::create(memory, (*device)->memory(), std::move(disk));
    EXPECT_OK(lower.status());
    auto executor = Executor::create(made.plan, memory, shape, rank, **device, nullptr, nullptr, lower->get());
    EXPECT_OK(executor.status());
    auto arena = (*device)->memory().allocateArena(memory.arenaBytes);
    EXPECT_OK((*executor)->initialize(**arena));
    const ShardRange range = shardRange(kElements, world, rank);
    std::vector<float> values(range.length);
    std::iota(values.begin(), values.end(), float(range.start) * 3);
    EXPECT_OK((*executor)->writeSlot(State, 0, values.data(), values.size() * 4));
    std::iota(values.begin(), values.end(), float(range.start) * 0.5f);
    EXPECT_OK((*executor)->writeSlot(Gradient, 0, values.data(), values.size() * 4));
    for (int step = 0; step < 2; ++step)
      EXPECT_OK((*executor)->execute("update"));
    EXPECT_OK((*executor)->readSlot(State, 0, values.data(), values.size() * 4));
    all.insert(all.end(), values.begin(), values.end());
    const MovedBytes moved = (*lower)->moved();
    EXPECT_GE(moved.hostOut + moved.diskOut, 2 * range.length * 4);
    EXPECT_EQ(moved.hostIn + moved.diskIn, onHost ? 0 : moved.hostOut + moved.diskOut);
  }
  return all;
}

TEST(Move, AnUpdateThroughWindowsIsTheUpdate) {
  for (uint32_t world : {1u, 2u, 3u}) {
    std::vector<float> expected;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const ShardRange range = shardRange(kElements, world, rank);
      for (uint64_t i = 0; i < range.length; ++i) {
        float state = float(range.start) * 3 + float(i);
        for (int step = 0; step < 2; ++step)
          state = 2 * state + (float(range.start) * 0.5f + float(i)) + float(range.start + i);
        expected.push_back(state);
      }
    }
    EXPECT_EQ(statesAfterTwo(plan::HOST, "", world), expected);
    EXPECT_EQ(statesAfterTwo(plan::HOST, "", world, /*onHost=*/true), expected);
    EXPECT_EQ(statesAfterTwo(plan::DISK, "threads", world), expected);
    if (const std::vector<float> uring = statesAfterTwo(plan::DISK, "io_uring", world); !uring.empty())
      EXPECT_EQ(uring, expected);
  }
}

} // namespace
} // namespace ztc::test::moves
