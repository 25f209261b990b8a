// Which records of linear attention's chunks are valid, each clause broken once; their texts.
#include "tests/unit/runtime/StepDamage.h"

namespace ztc {
namespace {

using namespace test;

/// 4 chunks of 2 states of 8 x 6, to which something is added.
plan::Plan statesPlan(int operands) {
  plan::Plan plan = planOf(operands, 4 * 2 * 8 * 6 * 4);
  plan::StatePassing &passing = *stepOf(plan).mutable_state_passing();
  passing.set_chunks(4);
  passing.set_rows(2);
  passing.set_keys(8);
  passing.set_values(6);
  passing.set_plus(true);
  return plan;
}
/// With everything that there may be, by 5 positions.
plan::Plan productsPlan() {
  plan::Plan plan = statesPlan(9);
  plan::StatePassing &passing = *stepOf(plan).mutable_state_passing();
  passing.set_positions(5);
  passing.set_past(true);
  passing.set_decay_keys(8);
  passing.set_decay_parts(3);
  return plan;
}
plan::Plan sumsPlan() {
  plan::Plan plan = statesPlan(3);
  stepOf(plan).mutable_state_passing()->set_reverse(true);
  return plan;
}

plan::Plan inversePlan() {
  plan::Plan plan = planOf(2, 3 * 64 * 64 * 4);
  plan::UnitLowerInverse &inverse = *stepOf(plan).mutable_unit_lower_inverse();
  inverse.set_count(3);
  inverse.set_size(64);
  return plan;
}

TEST(RecurrenceSteps, StateRecordsAreChecked) {
  const auto passing = [](plan::Step &s) { return s.mutable_state_passing(); };
  expectRefused(
      productsPlan,
      {
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "8 operands, 9"},
          {"no chunks", [&](plan::Step &s) { passing(s)->clear_chunks(); }, "0 chunks of 2 states of 8 x 6"},
          {"no states", [&](plan::Step &s) { passing(s)->clear_rows(); }, "4 chunks of 0 states"},
          {"keys", [&](plan::Step &s) { passing(s)->set_keys(UINT64_MAX); }, "of 18446744073709551615 x 6"},
          {"no values", [&](plan::Step &s) { passing(s)->clear_values(); }, "8 x 0"},
          {"positions", [&](plan::Step &s) { passing(s)->set_positions(uint64_t(1) << 40); },
           "chunks of 1099511627776"},
          {"decay of some rows", [&](plan::Step &s) { passing(s)->set_decay_keys(3); }, "decays 3 x 3 of states 8 x 6"},
          {"decay of no part", [&](plan::Step &s) { passing(s)->clear_decay_parts(); }, "decays 8 x 0"},
          {"decay of parts", [&](plan::Step &s) { passing(s)->set_decay_parts(4); }, "decays 8 x 4"},
          {"no decay, parts", [&](plan::Step &s) { passing(s)->clear_decay_keys(); }, "9 operands, 8"},
          {"overflow", [&](plan::Step &s) { passing(s)->set_chunks(INT32_MAX), passing(s)->set_rows(INT32_MAX); },
           "overflows"},
          {"to", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(to) has 64 bytes, 1280"},
          {"from", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(from) has 64 bytes, 1280"},
          {"update", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "(update) has 64 bytes, 960"},
          {"plus", [](plan::Step &s) { s.mutable_operands(3)->set_bytes(64); }, "(plus) has 64 bytes, 1536"},
          {"decay", [](plan::Step &s) { s.mutable_operands(4)->set_bytes(64); }, "(decay) has 64 bytes, 768"},
          {"past", [](plan::Step &s) { s.mutable_operands(5)->set_bytes(64); }, "(past) has 64 bytes, 384"},
          {"before", [](plan::Step &s) { s.mutable_operands(6)->set_bytes(64); }, "(before) has 64 bytes, 1536"},
          {"last", [](plan::Step &s) { s.mutable_operands(7)->set_bytes(64); }, "(last) has 64 bytes, 384"},
          {"x", [](plan::Step &s) { s.mutable_operands(8)->set_bytes(64); }, "(x) has 64 bytes, 960"},
      });
  expectRefused(sumsPlan,
                {{"nothing", [&](plan::Step &s) { s.mutable_operands()->RemoveLast(), passing(s)->clear_plus(); },
                  "to which nothing is added"},
                 {"parts", [&](plan::Step &s) { passing(s)->set_decay_parts(2); }, "decays 0 x 2"}});
}

TEST(RecurrenceSteps, InverseRecordsAreChecked) {
  const auto inverse = [](plan::Step &s) { return s.mutable_unit_lower_inverse(); };
  expectRefused(inversePlan,
                {
                    {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "1 operands, 2"},
                    {"none", [&](plan::Step &s) { inverse(s)->clear_count(); }, "inverses of 0 matrices of 64 rows"},
                    {"count", [&](plan::Step &s) { inverse(s)->set_count(UINT64_MAX); }, "inverses of 1844674407"},
                    {"no rows", [&](plan::Step &s) { inverse(s)->clear_size(); }, "of 0 rows"},
                    {"rows", [&](plan::Step &s) { inverse(s)->set_size(65); }, "of 65 rows"},
                    {"a", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(a) has 64 bytes, 49152"},
                    {"y", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(y) has 64 bytes, 49152"},
                });
}

TEST(RecurrenceSteps, Texts) {
  EXPECT_EQ(textOf(productsPlan()), "state_passing 4 chunks of 2 states 8x6 by 5 positions, decays 8x3");
  EXPECT_EQ(textOf(sumsPlan()), "state_passing 4 chunks in reverse of 2 states 8x6");
  EXPECT_EQ(textOf(inversePlan()), "unit_lower_inverse 3 x 64x64");
}

} // namespace
} // namespace ztc
