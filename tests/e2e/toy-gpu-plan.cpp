// Writes the plan of tests/unit/runtime/ToyGpuPlan.h.
//
//     toy-gpu-plan IMAGE PLAN
#include "runtime/Format/PlanFile.h"
#include "tests/unit/runtime/ToyGpuPlan.h"
#include <cstdio>

using namespace ztc;

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const Status status = writePlanFile(toy::makeGpuPlan(2, 8, argv[1]), argv[2]);
  if (!status.isOk())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.isOk() ? 0 : 1;
}
