#include "runtime/Train/Algorithms.h"
#include "runtime/Core/File.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace ztc {

std::string ChosenAlgorithms::text() const {
  std::string parts;
  const auto add = [&](size_t count, const std::string &what) {
    if (count)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, what);
  };
  add(resumed, "of the checkpoint");
  add(cached, "from the cache");
  add(measured, fmt::format("measured in {:.1f} s", seconds));
  const size_t others = choices.algorithms.size() - resumed - cached - measured;
  add(others, unmeasured ? fmt::format("as the library proposes ({} not measured: ZTC_CUDA_TUNE)", unmeasured)
                         : "as the library proposes");
  const auto attention = size_t(std::ranges::count_if(
      choices.algorithms, [](const auto &choice) { return choice.first.starts_with("attention"); }));
  return fmt::format("{} matrix products{}: {}", choices.algorithms.size() - attention,
                     attention ? fmt::format(", {} of attention", attention) : "", parts);
}

std::string algorithmCacheFile(const std::string &folder, const std::string &key) {
  std::string name;
  for (char c : key) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_';
    if (plain)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return fmt::format("{}/algorithms-{}.json", folder, name);
}

/// What the cache has for this device; empty, with a note, where the file is of no use.
static AlgorithmChoices readCache(const std::string &path, const std::string &key, std::vector<std::string> &notes) {
  const StatusOr<std::string> text = readWholeFile(path);
  if (!text.isOk() && text.status().code() == StatusCode::NotFound)
    return {};
  StatusOr<AlgorithmChoices> cached = text.status();
  if (text.isOk())
    cached = parseAlgorithmChoices(*text, path);
  if (cached.isOk() && cached->key != key)
    cached = failedPrecondition(fmt::format("'{}' is for {}", path, cached->key));
  if (cached.isOk())
    return std::move(*cached);
  notes.push_back(fmt::format("the cache of tuned algorithms is ignored: {}", cached.status().message()));
  return {};
}

static void addToCache(const std::string &path, AlgorithmChoices cached, const AlgorithmChoices &measured,
                       std::vector<std::string> &notes) {
  cached.key = measured.key;
  for (const auto &[signature, algorithm] : measured.algorithms)
    cached.algorithms[signature] = algorithm;
  Status written = makeFolders(parentFolder(path));
  if (written.isOk())
    written = replaceFile(path, printAlgorithmChoices(cached) + "\n");
  if (!written.isOk())
    notes.push_back(fmt::format("tuned algorithms are not kept for the next run: {}", written.message()));
}

/// Why a resumed run may differ from the one before; empty where every call has the checkpoint's algorithm.
static std::string difference(const AlgorithmChoices &resumed, const ChosenAlgorithms &chosen) {
  if (chosen.resumed == chosen.choices.algorithms.size())
    return {};
  if (resumed.key.empty())
    return "the checkpoint names no algorithms of matrix products: bits may differ";
  if (resumed.key != chosen.choices.key)
    return fmt::format("the algorithms of matrix products are for {}, the checkpoint's for {}: bits may differ",
                       chosen.choices.key, resumed.key);
  return fmt::format("for {} of {} matrix products the checkpoint has no algorithm: bits may differ",
                     chosen.choices.algorithms.size() - chosen.resumed, chosen.choices.algorithms.size());
}

/// Rank 0.
static StatusOr<ChosenAlgorithms> chooseHere(AlgorithmTuner &tuner, const Arena &arena, const AlgorithmPolicy &policy) {
  ChosenAlgorithms chosen;
  const std::string key = tuner.algorithmKey();
  const std::string path = policy.cacheFolder.empty() ? "" : algorithmCacheFile(policy.cacheFolder, key);
  const AlgorithmChoices cached = path.empty() ? AlgorithmChoices() : readCache(path, key, chosen.notes);
  const AlgorithmChoices none, &resumed = policy.resumed && policy.resumed->key == key ? *policy.resumed : none;
  TuningRequest request{.known = cached, .seconds = policy.seconds, .progress = policy.progress};
  request.known.key = key;
  for (const auto &[signature, algorithm] : resumed.algorithms)
    request.known.algorithms[signature] = algorithm;
  ZTC_ASSIGN_OR_RETURN(TunedAlgorithms tuned, tuner.tuneAlgorithms(arena, request));
  chosen.resumed = size_t(std::ranges::count_if(
      tuned.known, [&](const std::string &signature) { return resumed.algorithms.contains(signature); }));
  chosen.cached = tuned.known.size() - chosen.resumed;
  chosen.measured = tuned.measured.algorithms.size();
  chosen.unmeasured = tuned.unmeasured;
  chosen.seconds = tuned.seconds;
  chosen.choices = std::move(tuned.all);
  chosen.attentionSeconds = std::move(tuned.attentionSeconds);
  if (policy.resumed)
    chosen.differs = difference(*policy.resumed, chosen);
  if (!path.empty() && chosen.measured)
    addToCache(path, cached, tuned.measured, chosen.notes);
  return chosen;
}

/// Rank 0's text of any length, or its failure, on every rank.
static StatusOr<std::string> longTextFromFirstRank(ControlChannel &control, const StatusOr<std::string> &mine) {
  constexpr size_t kPiece = kMaxExchangeBytes / 2;
  StatusOr<std::string> size = mine.status();
  if (mine.isOk())
    size = std::to_string(mine->size());
  ZTC_ASSIGN_OR_RETURN(const std::string bytes, fromFirstRank(&control, "algorithms", size));
  std::string text;
  for (size_t left = std::strtoull(bytes.c_str(), nullptr, 10); left > 0; left -= std::min(left, kPiece)) {
    StatusOr<std::string> piece = std::string();
    if (mine.isOk())
      piece = mine->substr(std::min(text.size(), mine->size()), kPiece);
    ZTC_ASSIGN_OR_RETURN(const std::string received, fromFirstRank(&control, "algorithms", piece));
    text += received;
  }
  return text;
}

StatusOr<ChosenAlgorithms> chooseAlgorithms(Device &device, const Arena &arena, ControlChannel &control,
                                            const AlgorithmPolicy &policy) {
  AlgorithmTuner *const tuner = device.tuner();
  if (!tuner || tuner->algorithmKey().empty()) // on all ranks: they have the same plan
    return ChosenAlgorithms();
  const bool first = control.rank() == 0;
  StatusOr<ChosenAlgorithms> chosen = ChosenAlgorithms();
  if (first)
    chosen = chooseHere(*tuner, arena, policy);
  if (control.world() == 1)
    return chosen;
  StatusOr<std::string> mine = chosen.status();
  if (chosen.isOk())
    mine = printAlgorithmChoices(chosen->choices);
  ZTC_ASSIGN_OR_RETURN(const std::string text, longTextFromFirstRank(control, mine));
  Status taken;
  if (!first) {
    ZTC_ASSIGN_OR_RETURN(chosen->choices, parseAlgorithmChoices(text, "rank 0"));
    taken = tuner->useAlgorithms(chosen->choices);
  }
  // A rank with another GPU or library goes on with its own: gradients are added up all the same.
  ZTC_ASSIGN_OR_RETURN(const std::vector<Bytes> all, control.allGather("algorithms taken", encodeStatus(taken)));
  for (size_t rank = 0; first && rank < all.size(); ++rank)
    if (const Status theirs = decodeStatus(all[rank]); !theirs.isOk())
      chosen->notes.push_back(fmt::format("rank {} keeps algorithms of its own: {}", rank, theirs.message()));
  return chosen;
}

} // namespace ztc
