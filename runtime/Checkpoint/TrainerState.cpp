#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Core/Json.h"
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace ztc {

using Json = nlohmann::ordered_json;

std::string printTrainerState(const TrainerState &state) {
  Json json = {{"version", 1},
               {"step", state.step},
               {"adam_count", state.adamCount},
               {"epoch", state.cursor.epoch},
               {"rows", state.cursor.rows},
               {"global_batch", state.globalBatch},
               {"seed", state.seed},
               {"shuffle", state.shuffle},
               {"loss_scale", state.lossScale},
               {"good_steps", state.goodSteps},
               {"skipped_in_a_row", state.skippedInARow},
               {"environment", state.environment}};
  if (!state.run.empty())
    json["run"] = state.run;
  if (state.evalLoss)
    json["eval_loss"] = *state.evalLoss;
  if (const BestEvaluation &best = state.bestEvaluation; best.loss || best.since > 0)
    json["best_evaluation"] = {{"name", best.name},
                               {"loss", best.loss ? Json(*best.loss) : Json()},
                               {"step", best.step},
                               {"since", best.since}};
  if (state.gradientNorm)
    json["gradient_norm"] = *state.gradientNorm;
  if (!state.gradientNorms.empty()) {
    json["gradient_norms"] = state.gradientNorms;
    json["dropped_in_a_row"] = state.droppedInARow;
  }
  if (!state.fp8Maxima.empty())
    json["fp8_maxima"] = state.fp8Maxima;
  if (!state.settings.empty())
    json["settings"] = state.settings;
  if (!state.algorithms.key.empty())
    json["algorithms"] = Json::parse(printAlgorithmChoices(state.algorithms), nullptr, /*allow_exceptions=*/false);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

static bool readNumber(const Json &json, const char *name, uint64_t &value) {
  const auto it = json.find(name);
  if (it == json.end())
    return false;
  const auto *number = it->get_ptr<const Json::number_unsigned_t *>();
  if (number)
    value = *number;
  return number != nullptr;
}

static void readTexts(const Json &json, const char *name, std::map<std::string, std::string> &texts) {
  const auto object = json.find(name);
  if (object == json.end() || !object->is_object())
    return;
  for (auto it = object->begin(); it != object->end(); ++it)
    if (const auto *value = it.value().get_ptr<const std::string *>())
      texts[it.key()] = *value;
}

/// Empty where it is missing or not whole.
static BestEvaluation readBestEvaluation(const Json &json) {
  const auto object = json.find("best_evaluation");
  BestEvaluation best;
  if (object == json.end() || !object->is_object())
    return best;
  const auto name = object->find("name"), loss = object->find("loss");
  if (name == object->end() || !name->is_string() || loss == object->end() || !readNumber(*object, "step", best.step) ||
      !readNumber(*object, "since", best.since))
    return {};
  best.name = *name->get_ptr<const std::string *>();
  if (loss->is_number())
    best.loss = loss->get<double>();
  return best;
}

StatusOr<TrainerState> parseTrainerState(std::string_view text, const std::string &path) {
  const Json json = parseJson<Json>(text);
  if (!json.is_object() || !json.contains("version"))
    return dataLoss(fmt::format("'{}' is not a valid trainer state", path));
  if (json["version"] != 1)
    return failedPrecondition(fmt::format("'{}' is of a version that this program does not read", path));
  TrainerState state;
  for (const auto &[name, value] : {std::pair<const char *, uint64_t *>{"step", &state.step},
                                    {"adam_count", &state.adamCount},
                                    {"epoch", &state.cursor.epoch},
                                    {"rows", &state.cursor.rows},
                                    {"global_batch", &state.globalBatch},
                                    {"seed", &state.seed},
                                    {"good_steps", &state.goodSteps},
                                    {"skipped_in_a_row", &state.skippedInARow}})
    if (!readNumber(json, name, *value))
      return dataLoss(fmt::format("'{}' is not a valid trainer state: '{}' is missing or not a number", path, name));
  const auto shuffle = json.find("shuffle"), scale = json.find("loss_scale");
  if (shuffle == json.end() || !shuffle->is_boolean() || scale == json.end() || !scale->is_number())
    return dataLoss(fmt::format("'{}' is not a valid trainer state: 'shuffle' or 'loss_scale' is missing", path));
  state.shuffle = *shuffle->get_ptr<const bool *>();
  state.lossScale = scale->get<double>();
  readTexts(json, "environment", state.environment);
  readTexts(json, "settings", state.settings);
  // These came later than the rest: a state without them is of an older program.
  if (const auto norm = json.find("gradient_norm"); norm != json.end()) {
    if (!norm->is_number() || !std::isfinite(norm->get<float>()))
      return dataLoss(fmt::format("'{}' is not a valid trainer state: 'gradient_norm' is not a number", path));
    state.gradientNorm = norm->get<float>();
  }
  if (const auto norms = json.find("gradient_norms"); norms != json.end() && norms->is_array()) {
    for (const Json &norm : *norms) {
      if (!norm.is_number() || !std::isfinite(norm.get<float>()))
        return dataLoss(fmt::format("'{}' is not a valid trainer state: 'gradient_norms' holds no numbers", path));
      state.gradientNorms.push_back(norm.get<float>());
    }
    (void)readNumber(json, "dropped_in_a_row", state.droppedInARow);
  }
  if (const auto maxima = json.find("fp8_maxima"); maxima != json.end() && maxima->is_object())
    for (auto it = maxima->begin(); it != maxima->end(); ++it) {
      if (!it->is_number() || !std::isfinite(it->get<float>()) || it->get<float>() < 0)
        return dataLoss(fmt::format("'{}' is not a valid trainer state: 'fp8_maxima' holds no absolute maxima", path));
      state.fp8Maxima[it.key()] = it->get<float>();
    }
  if (const auto run = json.find("run"); run != json.end() && run->is_string())
    state.run = *run->get_ptr<const std::string *>();
  if (const auto loss = json.find("eval_loss"); loss != json.end() && loss->is_number())
    state.evalLoss = loss->get<double>();
  state.bestEvaluation = readBestEvaluation(json);
  if (const auto algorithms = json.find("algorithms"); algorithms != json.end()) {
    ZTC_ASSIGN_OR_RETURN(state.algorithms, parseAlgorithmChoices(algorithms->dump(), path));
  }
  return state;
}

std::string checkpointName(uint64_t step) {
  return fmt::format("step-{:08}", step);
}

std::optional<uint64_t> checkpointStep(const std::string &name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  uint64_t step = 0;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || checkpointName(step) != name)
    return std::nullopt;
  return step;
}

} // namespace ztc
