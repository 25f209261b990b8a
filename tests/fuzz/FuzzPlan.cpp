// Plans whose checksum is right: parser, validator and memory planner in several shapes.
#include "runtime/Core/Sha256.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Memory/Planner.h"
#include "tests/fuzz/Fuzz.h"
#include <cstdlib>
#include <cstring>
#ifdef ZTC_LIBFUZZER
#include "tests/fuzz/WireMutation.h"
#endif

using namespace ztc;

/// The input is the payload.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(kPlanHeaderBytes, '\0');
  bytes.append(reinterpret_cast<const char *>(data), size);
  const Sha256Digest digest = Sha256::of(data, size);
  const uint32_t version = kPlanFormatVersion;
  const uint64_t payload = size;
  std::memcpy(bytes.data(), "ZTCPLAN\0", 8);
  std::memcpy(bytes.data() + 8, &version, 4);
  std::memcpy(bytes.data() + 16, &payload, 8);
  std::memcpy(bytes.data() + 24, digest.data(), digest.size());
  const StatusOr<LoadedPlan> loaded = parsePlan(bytes, "fuzzed");
  if (!loaded.isOk())
    return 0;
  for (const PlanShape &shape : {PlanShape{1, 1, 1}, PlanShape{3, 1, 2}, PlanShape{2, 4, 1}, PlanShape{8, 2, 0}}) {
    const StatusOr<MemoryPlan> memory = planMemory(loaded->plan, shape);
    for (size_t i = 0; memory.isOk() && i < memory->slots.size(); ++i)
      if (memory->slots[i].offset > memory->arenaBytes ||
          memory->slots[i].bytes > memory->arenaBytes - memory->slots[i].offset)
        std::abort(); // a slot outside of its arena
  }
  return 0;
}
