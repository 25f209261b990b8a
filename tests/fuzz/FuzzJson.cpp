// Small files in JSON that runs and checkpoints read: trainer state, manifest, choices of algorithms.
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Core/Json.h"
#include "runtime/Format/AlgorithmChoices.h"
#include "runtime/Format/Manifest.h"
#include "tests/fuzz/Fuzz.h"

using namespace ztc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text = fuzz::text(data, size);
  if (auto manifest = parseManifest(text, "fuzzed"); manifest.isOk())
    (void)parseManifest(printManifest(*manifest), "printed").isOk();
  if (auto state = parseTrainerState(text, "fuzzed"); state.isOk())
    (void)printTrainerState(*state);
  if (auto choices = parseAlgorithmChoices(text, "fuzzed"); choices.isOk())
    (void)printAlgorithmChoices(*choices);
  const nlohmann::json json = parseJson(text), copy = json;
  (void)copy.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return 0;
}
