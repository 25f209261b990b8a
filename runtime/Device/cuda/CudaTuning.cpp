#include "runtime/Device/cuda/CudaTuning.h"
#include "runtime/Core/Random.h"
#include "runtime/Device/cuda/CudaAttentionTuning.h"
#include "runtime/Device/cuda/CudaProduct.h"
#include "runtime/Device/cuda/CudaReals.h"
#include "runtime/Device/cuda/CudaTimer.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>

namespace ztc {
namespace {

/// One that has taken so many times as long as the best is not measured to the end.
constexpr double kHopeless = 1.5;

using Clock = std::chrono::steady_clock;
using Call = std::shared_ptr<CudaProductCall>;

std::string hexOf(const cublaslt::Algorithm &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.data)
    text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublaslt::Algorithm> algorithmOf(std::string_view hex) {
  cublaslt::Algorithm algorithm{};
  if (hex.size() != 16 * std::size(algorithm.data))
    return std::nullopt;
  for (uint64_t &word : algorithm.data) {
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + 16, word, 16);
    if (error != std::errc() || end != hex.data() + 16)
      return std::nullopt;
    hex.remove_prefix(16);
  }
  return algorithm;
}

/// The calls of the prepared steps, by signature.
std::map<std::string, Call> liveCalls(const CudaResources &resources) {
  std::map<std::string, Call> calls;
  for (const auto &[signature, call] : resources.products)
    if (Call live = call.lock())
      calls.emplace(signature, std::move(live));
  return calls;
}

/// True where `choices` has one for this call and the library takes it.
bool takeFrom(const AlgorithmChoices &choices, const std::string &signature, CudaProductCall &call) {
  const auto found = choices.algorithms.find(signature);
  if (found == choices.algorithms.end())
    return false;
  const std::optional<cublaslt::Algorithm> algorithm = algorithmOf(found->second);
  return algorithm && call.choose(*algorithm);
}

/// What a call takes of the plan's time, nearly; only for the order.
double weight(const CudaProductCall &call) {
  const CudaProductShape &shape = call.shape();
  return double(shape.m) * double(shape.n) * double(shape.k) * double(shape.batch) * call.users;
}

/// Executes candidates on operands in the arena.
class Trials {
public:
  Trials(CudaResources &resources, const Arena &arena, Clock::time_point end)
      : driver_(resources.driver), stream_(resources.streams[kComputeStream]), watch_(resources.driver, stream_),
        base_(arena.base()), bytes_(arena.bytes()), end_(end) {}

  Status begin();
  /// The arena as it was.
  Status finish() {
    return driver_.check(driver_.cuMemsetD8Async(reinterpret_cast<cuda::Address>(base_), 0, bytes_, stream_),
                         "cuMemsetD8Async");
  }

  /// Chooses an algorithm of `call`. False: it does not fit the arena, or time is over; it keeps the one it has.
  StatusOr<bool> choose(CudaProductCall &call);
  bool isOver() const { return Clock::now() >= end_; }

private:
  static uint64_t aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
  /// A number of the arena serves as both scales.
  static uint64_t scaleBytes(const CudaProductShape &shape) { return shape.isScaled() ? aligned(sizeof(float)) : 0; }
  /// Another piece of the arena each time: what it holds is in no cache, as in training.
  CudaProductOperands nextOperands(const CudaProductShape &shape);
  /// What they take.
  static uint64_t bytesOf(const CudaProductShape &shape) {
    return aligned(shape.bytesA()) + aligned(shape.bytesB()) + aligned(shape.bytesC()) + aligned(shape.workspaceBytes) +
           scaleBytes(shape) + aligned(shape.bytesOfBias()) + aligned(shape.bytesOfSums());
  }
  /// Shortest seconds of one candidate; infinite where the library refuses it or it is hopeless beside `best`.
  StatusOr<double> measure(const CudaProductCall &call, const cublaslt::Algorithm &algorithm, double best);

  const CudaDriver &driver_;
  const cuda::Stream stream_;
  CudaStopwatch watch_;
  std::byte *const base_;
  const uint64_t bytes_;
  const Clock::time_point end_;
  uint64_t next_ = 0; ///< offset of the next operands
};

Status Trials::begin() {
  ZTC_RETURN_IF_ERROR(watch_.create());
  return fillWithReals(driver_, stream_, reinterpret_cast<cuda::Address>(base_), bytes_);
}

CudaProductOperands Trials::nextOperands(const CudaProductShape &shape) {
  const uint64_t a = aligned(shape.bytesA()), b = aligned(shape.bytesB()), c = aligned(shape.bytesC());
  if (next_ + bytesOf(shape) > bytes_)
    next_ = 0;
  std::byte *const at = base_ + next_;
  next_ += bytesOf(shape);
  std::byte *const workspace = at + a + b + c, *const scale = workspace + aligned(shape.workspaceBytes);
  CudaProductOperands operands{at, at + a, at + a + b, workspace, scale, scale};
  std::byte *const bias = scale + scaleBytes(shape);
  operands.bias = bias;
  operands.sums = bias + aligned(shape.bytesOfBias());
  return operands;
}

StatusOr<double> Trials::measure(const CudaProductCall &call, const cublaslt::Algorithm &algorithm, double best) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double shortest = kNever;
  for (int i = 0; i <= kTuningRepetitions && !isOver(); ++i) {
    const CudaProductOperands operands = nextOperands(call.shape());
    bool refused = false;
    ZTC_ASSIGN_OR_RETURN(const double seconds, watch_.seconds([&] {
      refused = !call.execute(stream_, algorithm, operands, 1, call.shape().adds ? 1 : 0).isOk();
      return Status::ok();
    }));
    if (refused)
      return kNever;
    if (i > 0)
      shortest = std::min(shortest, seconds);
    if (i > 1 && shortest > kHopeless * best)
      return kNever;
  }
  return shortest;
}

StatusOr<bool> Trials::choose(CudaProductCall &call) {
  const CudaProductShape &shape = call.shape();
  if (bytesOf(shape) > bytes_)
    return false;
  size_t chosen = 0;
  double first = 0, best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < call.candidates().size(); ++i) {
    ZTC_ASSIGN_OR_RETURN(const double seconds, measure(call, call.candidates()[i], best));
    if (isOver())
      return false;
    if (i == 0)
      first = seconds;
    if (seconds < best) {
      best = seconds;
      chosen = i;
    }
  }
  return std::isfinite(best) && call.choose(call.candidates()[best < kClearlyFaster * first ? chosen : 0]);
}

} // namespace

std::string cudaAlgorithmKey(const CudaResources &resources) {
  if (liveCalls(resources).empty())
    return {};
  const std::string cudnn = hasAttentionChoice(resources) ? ", " + resources.cudnn.version() : "";
  return fmt::format("{}{} on {}, {}, {} multiprocessors", resources.cublasLt->version, cudnn, resources.gpu.name,
                     resources.gpu.architecture(), resources.gpu.multiprocessors);
}

StatusOr<TunedAlgorithms> tuneCudaCalls(CudaResources &resources, const Arena &arena, const TuningRequest &request) {
  const Clock::time_point begin = Clock::now();
  const std::map<std::string, Call> calls = liveCalls(resources);
  TunedAlgorithms tuned;
  tuned.all.key = tuned.measured.key = cudaAlgorithmKey(resources);
  const Clock::time_point end = begin + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(std::min(request.seconds, 3600.0)));
  ZTC_RETURN_IF_ERROR(tuneCudaAttention(resources, arena, request, end, tuned));
  size_t measured = 0;
  std::vector<std::pair<std::string, Call>> open;
  for (const auto &[signature, call] : calls) {
    if (request.known.key == tuned.all.key && takeFrom(request.known, signature, *call))
      tuned.known.insert(signature);
    else if (call->candidates().size() > 1)
      open.emplace_back(signature, call);
  }
  std::ranges::sort(open, [](const auto &x, const auto &y) {
    const double first = weight(*x.second), second = weight(*y.second);
    return first != second ? first > second : x.first < y.first;
  });
  Trials trials(resources, arena, end);
  if (!open.empty() && request.seconds > 0) {
    ZTC_RETURN_IF_ERROR(trials.begin());
    for (size_t i = 0; i < open.size() && !trials.isOver(); ++i) {
      if (request.progress)
        request.progress(i, open.size());
      ZTC_ASSIGN_OR_RETURN(const bool isMeasured, trials.choose(*open[i].second));
      measured += isMeasured;
      if (isMeasured)
        tuned.measured.algorithms[open[i].first] = hexOf(open[i].second->algorithm());
    }
  }
  if (request.seconds > 0 && (hasAttentionChoice(resources) || !open.empty()))
    ZTC_RETURN_IF_ERROR(trials.finish());
  for (const auto &[signature, call] : calls)
    tuned.all.algorithms[signature] = hexOf(call->algorithm());
  tuned.unmeasured += open.size() - measured;
  tuned.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return tuned;
}

Status useCudaAlgorithms(CudaResources &resources, const AlgorithmChoices &choices) {
  if (const std::string key = cudaAlgorithmKey(resources); key != choices.key)
    return failedPrecondition(fmt::format("algorithms for {} cannot be used by {}", choices.key, key));
  const std::string attention = useCudaAttention(resources, choices);
  std::string refused;
  for (const auto &[signature, call] : liveCalls(resources))
    if (!takeFrom(choices, signature, *call) && refused.empty())
      refused = signature;
  if (!refused.empty())
    return failedPrecondition(
        fmt::format("{} refuses the algorithm chosen for {}", resources.cublasLt->version, refused));
  return attention.empty() ? Status::ok()
                           : failedPrecondition(fmt::format("nothing that is known here was chosen for {}", attention));
}

} // namespace ztc
