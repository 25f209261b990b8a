// Which records of selective scans are valid, each clause broken once; their texts.
#include "tests/unit/runtime/StepDamage.h"

namespace ztc {
namespace {

using namespace test;

plan::Plan scanPlanOf(bool grad) {
  plan::Plan plan = planOf(grad ? 13 : 7, 4096);
  for (const char *name : {"selective_scan", "selective_scan_grad", "selective_scan_packed", "gpu_selective_scan_4",
                           "gpu_selective_scan_grad_4", "gpu_selective_scan_4_packed"})
    plan.add_kernels()->set_name(name);
  plan::SelectiveScan &scan = *stepOf(plan).mutable_selective_scan();
  scan.set_batch(2), scan.set_positions(9), scan.set_channels(16), scan.set_states(4), scan.set_chunk(8);
  scan.set_grad(grad);
  scan.set_scan_kernel(grad ? 1 : 0);
  return plan;
}
plan::Plan scanPlan() {
  return scanPlanOf(false);
}
plan::Plan scanGradPlan() {
  return scanPlanOf(true);
}
plan::Plan packedScanPlan() {
  plan::Plan plan = scanPlanOf(false);
  stepOf(plan).add_operands()->set_bytes(4096);
  stepOf(plan).mutable_selective_scan()->set_packed(true);
  stepOf(plan).mutable_selective_scan()->set_scan_kernel(2);
  stepOf(plan).mutable_selective_scan()->add_gpu_kernels(5);
  return plan;
}

Damage shortOperand(int index, const char *expected) {
  return {expected, [=](plan::Step &s) { s.mutable_operands(index)->set_bytes(16); }, expected};
}

TEST(SelectiveScanSteps, RecordsAreChecked) {
  const auto scan = [](plan::Step &s) { return s.mutable_selective_scan(); };
  expectRefused(
      scanPlan,
      {
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "6 operands, 7"},
          {"no rows", [=](plan::Step &s) { scan(s)->clear_batch(); }, "a size of zero"},
          {"no positions", [=](plan::Step &s) { scan(s)->clear_positions(); }, "a size of zero"},
          {"no channels", [=](plan::Step &s) { scan(s)->clear_channels(); }, "a size of zero"},
          {"no states", [=](plan::Step &s) { scan(s)->clear_states(); }, "a size of zero"},
          {"no chunk", [=](plan::Step &s) { scan(s)->clear_chunk(); }, "a size of zero"},
          {"channels", [=](plan::Step &s) { scan(s)->set_channels(24); }, "24 channels"},
          {"states", [=](plan::Step &s) { scan(s)->set_states(65); }, "states of 65"},
          {"chunk", [=](plan::Step &s) { scan(s)->set_chunk(12); }, "in chunks of 12"},
          {"long chunk", [=](plan::Step &s) { scan(s)->set_chunk(uint64_t(1) << 40); }, "in chunks of 1099511627776"},
          {"positions", [=](plan::Step &s) { scan(s)->set_positions(uint64_t(1) << 31); }, "of 2147483648 positions"},
          {"overflow", [=](plan::Step &s) { scan(s)->set_batch(uint64_t(1) << 60); }, "overflow"},
          {"no kernel", [=](plan::Step &s) { scan(s)->set_scan_kernel(17); }, "kernel 17"},
          {"another kernel", [=](plan::Step &s) { scan(s)->set_scan_kernel(1); }, "is not the service kernel"},
          {"a packed kernel", [=](plan::Step &s) { scan(s)->set_scan_kernel(2); }, "that is not packed"},
          {"a gradient's", [=](plan::Step &s) { scan(s)->add_gpu_kernels(4); }, "is not the service kernel"},
          {"other states'", [=](plan::Step &s) { scan(s)->set_states(3), scan(s)->add_gpu_kernels(3); },
           "is not the service kernel gpu_selective_scan_3"},
          {"a packed kernel for GPUs", [=](plan::Step &s) { scan(s)->add_gpu_kernels(5); }, "that is not packed"},
          shortOperand(0, "(v) has 16 bytes, 1152"),
          shortOperand(1, "(delta) has 16 bytes, 1152"),
          shortOperand(2, "(rate) has 16 bytes, 256"),
          shortOperand(3, "(b) has 16 bytes, 288"),
          shortOperand(4, "(c) has 16 bytes, 288"),
          shortOperand(5, "(y) has 16 bytes, 1152"),
          shortOperand(6, "(states) has 16 bytes, 1024"),
      });
}

TEST(SelectiveScanSteps, RecordsOfGradientsAreChecked) {
  expectRefused(scanGradPlan, {
                                  {"operands", [](plan::Step &s) { s.add_operands(); }, "14 operands, 13"},
                                  shortOperand(5, "(states) has 16 bytes, 1024"),
                                  shortOperand(6, "(dy) has 16 bytes, 1152"),
                                  shortOperand(7, "(dv) has 16 bytes, 1152"),
                                  shortOperand(8, "(ddelta) has 16 bytes, 1152"),
                                  shortOperand(9, "(drate) has 16 bytes, 512"),
                                  shortOperand(10, "(db) has 16 bytes, 288"),
                                  shortOperand(11, "(dc) has 16 bytes, 288"),
                              });
}

TEST(SelectiveScanSteps, RecordsOfPackedRowsAreChecked) {
  const auto scan = [](plan::Step &s) { return s.mutable_selective_scan(); };
  expectRefused(packedScanPlan,
                {
                    {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "7 operands, 8"},
                    {"kernel", [=](plan::Step &s) { scan(s)->set_scan_kernel(0); }, "that is packed"},
                    {"kernel for GPUs", [=](plan::Step &s) { scan(s)->set_gpu_kernels(0, 3); }, "that is packed"},
                    shortOperand(7, "(document_starts) has 16 bytes, 72"),
                });
}

TEST(SelectiveScanSteps, Texts) {
  EXPECT_EQ(textOf(scanPlan()), "selective_scan B2 T9 D16 N4 in chunks of 8");
  EXPECT_EQ(textOf(scanGradPlan()), "selective_scan_grad B2 T9 D16 N4 in chunks of 8");
  EXPECT_EQ(textOf(packedScanPlan()), "selective_scan B2 T9 D16 N4 in chunks of 8 packed");
}

} // namespace
} // namespace ztc
