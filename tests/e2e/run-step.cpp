// Runs one micro-step of a plan, and its generation for row 0, on given numbers, for tests of the compiler.
//
//     run-step PLAN INPUTS OUTPUTS
//
// Both files hold blocks: a name and a count, then so many numbers, floats in hexadecimal. Inputs are tokens, targets,
// scale (what multiplies the loss) and the parameters by name, outputs loss, logits and the gradients by name.
#include "runtime/Core/FloatTypes.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Memory/Planner.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

using namespace ztc;

namespace {

using Numbers = std::map<std::string, std::vector<float>>;

Numbers readNumbers(const char *path) {
  Numbers numbers;
  std::ifstream in(path);
  std::string name, text;
  for (size_t count; in >> name >> count;) {
    std::vector<float> &values = numbers[name];
    while (values.size() < count && in >> text)
      values.push_back(std::strtof(text.c_str(), nullptr));
  }
  return numbers;
}

void writeNumbers(std::FILE *file, const std::string &name, const std::vector<float> &values) {
  std::fprintf(file, "%s %zu\n", name.c_str(), values.size());
  for (float value : values)
    std::fprintf(file, "%a\n", double(value));
}

bool isNarrow(plan::DataType type) {
  return type == plan::BF16 || type == plan::F16;
}

Status writeFloats(Executor &executor, uint32_t slot, plan::DataType type, uint64_t first,
                   const std::vector<float> &values) {
  if (!isNarrow(type))
    return executor.writeSlot(slot, first * 4, values.data(), values.size() * 4);
  std::vector<uint16_t> halves;
  for (float value : values)
    halves.push_back(type == plan::BF16 ? toBf16(value) : toF16(value));
  return executor.writeSlot(slot, first * 2, halves.data(), halves.size() * 2);
}

StatusOr<std::vector<float>> readFloats(Executor &executor, uint32_t slot, plan::DataType type, uint64_t first,
                                        uint64_t count) {
  std::vector<float> values(count);
  if (!isNarrow(type)) {
    ZTC_RETURN_IF_ERROR(executor.readSlot(slot, first * 4, values.data(), count * 4));
    return values;
  }
  std::vector<uint16_t> halves(count);
  ZTC_RETURN_IF_ERROR(executor.readSlot(slot, first * 2, halves.data(), count * 2));
  for (uint64_t i = 0; i < count; ++i)
    values[i] = type == plan::BF16 ? fromBf16(halves[i]) : fromF16(halves[i]);
  return values;
}

Status writeIntegers(Executor &executor, uint32_t slot, const std::vector<float> &values) {
  std::vector<int32_t> integers(values.begin(), values.end());
  return executor.writeSlot(slot, 0, integers.data(), integers.size() * 4);
}

Status run(const plan::Plan &plan, Numbers inputs, std::FILE *file) {
  ZTC_RETURN_IF_ERROR(validatePlan(plan));
  const PlanShape shape{1, 1, 2};
  HostDeviceOptions options;
  options.threads = 2;
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createHostDevice(options));
  ZTC_ASSIGN_OR_RETURN(MemoryPlan memory, planMemory(plan, shape));
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, Executor::create(plan, memory, shape, 0, *device, nullptr));
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, device->memory().allocateArena(memory.arenaBytes));
  ZTC_RETURN_IF_ERROR(executor->initialize(*arena));
  for (const plan::Parameter &parameter : plan.parameters())
    ZTC_RETURN_IF_ERROR(writeFloats(*executor, plan.buckets(int(parameter.bucket())).parameter_slot(), parameter.type(),
                                    parameter.offset(), inputs[parameter.name()]));
  const plan::Bindings &bindings = plan.bindings();
  const std::vector<float> step(kStepParameterCount, inputs["scale"].at(0));
  ZTC_RETURN_IF_ERROR(writeIntegers(*executor, bindings.tokens(), inputs["tokens"]));
  ZTC_RETURN_IF_ERROR(writeIntegers(*executor, bindings.targets(), inputs["targets"]));
  ZTC_RETURN_IF_ERROR(executor->writeSlot(bindings.step_parameters(), 0, step.data(), step.size() * 4));
  ZTC_RETURN_IF_ERROR(executor->execute("microstep", 0));
  ZTC_ASSIGN_OR_RETURN(std::vector<float> loss, readFloats(*executor, bindings.loss(), plan::F32, 0, 1));
  writeNumbers(file, "loss", loss);
  for (const plan::Parameter &parameter : plan.parameters()) {
    if (!parameter.trainable())
      continue;
    const plan::Bucket &bucket = plan.buckets(int(parameter.bucket()));
    const plan::DataType type = plan.slots(int(bucket.gradient_slot())).type();
    ZTC_ASSIGN_OR_RETURN(std::vector<float> gradient, readFloats(*executor, bucket.gradient_slot(), type,
                                                                 parameter.offset(), inputs[parameter.name()].size()));
    writeNumbers(file, parameter.name(), gradient);
  }
  const auto positions = size_t(plan.slots(int(bindings.position())).size().elements());
  ZTC_RETURN_IF_ERROR(writeIntegers(*executor, bindings.position(), std::vector<float>(positions, 0)));
  ZTC_RETURN_IF_ERROR(executor->execute("generate"));
  ZTC_ASSIGN_OR_RETURN(std::vector<float> logits,
                       readFloats(*executor, bindings.logits(), plan::F32, 0, plan.model().vocabulary()));
  writeNumbers(file, "logits", logits);
  return Status::ok();
}

} // namespace

int main(int count, char **arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: run-step PLAN INPUTS OUTPUTS\n");
    return 2;
  }
  StatusOr<LoadedPlan> plan = readPlanFile(arguments[1]);
  std::FILE *file = std::fopen(arguments[3], "w");
  const Status status = !plan.isOk() ? plan.status()
                        : !file      ? internalError("cannot write the outputs")
                                     : run(plan->plan, readNumbers(arguments[2]), file);
  if (file)
    std::fclose(file);
  if (status.isOk())
    return 0;
  std::fprintf(stderr, "run-step: %s\n", status.message().c_str());
  return 1;
}
