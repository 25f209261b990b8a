// Records of steps, each clause of whose validation is broken once.
#pragma once
#include "runtime/Format/Steps/StepDefinition.h"
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace ztc::test {

/// One slot, which holds the largest operand, under every operand.
inline plan::Plan planOf(int operands, uint64_t bytes) {
  plan::Plan plan;
  plan.add_slots()->set_name("slot");
  plan::Step &step = *plan.add_programs()->add_steps();
  for (int i = 0; i < operands; ++i)
    step.add_operands()->set_bytes(bytes);
  return plan;
}

/// The only step of a plan.
inline plan::Step &stepOf(plan::Plan &plan) {
  return *plan.mutable_programs(0)->mutable_steps(0);
}

/// What the step's kind says of it, where slots have 4096 bytes.
inline Status validate(plan::Plan &plan) {
  const std::vector<uint64_t> slots(size_t(plan.slots_size()), 4096);
  return definitionOf(stepOf(plan))->validate(StepCheck(plan, slots, stepOf(plan)));
}

/// A change that makes a valid step invalid, and a part of the error that it must give.
struct Damage {
  const char *name;
  std::function<void(plan::Step &)> apply;
  const char *expected;
};

/// What `make` gives is valid, and after each of the damages it is refused.
inline void expectRefused(plan::Plan (*make)(), const std::vector<Damage> &damages) {
  plan::Plan whole = make();
  EXPECT_TRUE(validate(whole).isOk()) << validate(whole).message();
  for (const auto &[name, apply, expected] : damages) {
    plan::Plan plan = make();
    apply(stepOf(plan));
    const Status status = validate(plan);
    EXPECT_EQ(status.code(), StatusCode::DataLoss) << name;
    EXPECT_NE(status.message().find(expected), std::string::npos) << name << ": " << status.message();
  }
}

/// Its line in what `ztc inspect` prints.
inline std::string textOf(plan::Plan plan) {
  return definitionOf(stepOf(plan))->text(plan, stepOf(plan));
}

} // namespace ztc::test
