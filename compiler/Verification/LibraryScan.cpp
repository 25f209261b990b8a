// Kernels of selective scans at the sizes of a plan: whole ways of a few channels through a row, and the sums over a
// group of them.
#include "compiler/Dialect/Graph/Scan.h"
#include "compiler/Reference/Tensor.h"
#include "compiler/Verification/LibraryCases.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <memory>
#include <numeric>

using namespace mlir;

namespace ztc::verification {
namespace {

/// A call of the scan or of its gradient.
struct ScanCall {
  int64_t batch, positions, channels, states, chunk;
  bool isGradient, packed;
  Type f32, i32;

  template <typename OpTy> static ScanCall of(OpTy op) {
    auto v = cast<RankedTensorType>(op.getV().getType());
    MLIRContext *context = op.getContext();
    return {v.getDimSize(0),
            v.getDimSize(1),
            v.getDimSize(2),
            cast<RankedTensorType>(op.getRate().getType()).getDimSize(0),
            int64_t(op.getChunk()),
            std::is_same_v<OpTy, graph::SelectiveScanGradOp>,
            bool(op.getDocumentStarts()),
            Float32Type::get(context),
            IntegerType::get(context, 32)};
  }

  std::string text() const {
    return llvm::formatv("selective scan{0} of {1} x {2} positions, {3} channels with states of {4}{5}",
                         isGradient ? "'s gradient" : "", batch, positions, channels, states, packed ? ", packed" : "");
  }
  int64_t chunks() const { return int64_t(scanChunks(uint64_t(positions), uint64_t(chunk))); }
  int64_t groups() const { return int64_t(scanGroups(uint64_t(channels))); }
  int64_t own(int64_t row, int64_t t, int64_t d) const { return (row * positions + t) * channels + d; }
  int64_t shared(int64_t row, int64_t t, int64_t n) const { return (row * positions + t) * states + n; }
  int64_t kept(int64_t row, int64_t number, int64_t n, int64_t d) const {
    return ((row * chunks() + number) * states + n) * channels + d;
  }
  /// Documents of a third of the row, of a sixth, and the rest.
  int64_t startOf(int64_t position) const {
    return position >= positions / 2 ? positions / 2 : position >= positions / 3 ? positions / 3 : 0;
  }
  /// Of random steps, which have both signs: the product of all decays stays near 1.
  double rate(int64_t n, int64_t d) const { return -double(1 + (n + d) % 3) / (2 * std::sqrt(double(positions))); }
  /// Positions whose numbers are looked at.
  std::set<int64_t> someOfPositions() const {
    return {0, std::min(chunk, positions) - 1, std::min(chunk, positions - 1), positions / 2, positions - 1};
  }
};

/// What all channels of a row read.
struct SharedNumbers {
  std::vector<double> keys, queries;
};

/// The operands of a launch, and the way of channels through them.
class ScanLaunch {
public:
  ScanLaunch(const ScanCall &call, bool isForGpus) : c(call), isForGpus(isForGpus) {}

  LibraryLaunch make() {
    const auto width = int64_t(isForGpus || c.isGradient ? kScanGroup : kScanLanes);
    const auto perRow = int64_t(llvm::divideCeil(uint64_t(c.channels), uint64_t(width)));
    launch.units = {0, c.batch * perRow - 1};
    launch.extent = c.batch * perRow;
    launch.scalars = isForGpus ? std::vector<int64_t>{c.positions, c.channels, c.chunk, c.batch}
                               : std::vector<int64_t>{c.positions, c.channels, c.states, c.chunk, c.batch};
    if (c.positions * c.states > kMostNumbers) {
      launch.units.clear();
      launch.leftOut = "rows of that length take too long";
      return std::move(launch);
    }
    addBuffers();
    if (!launch.refused.empty())
      return std::move(launch);
    for (int64_t unit : launch.units) {
      const int64_t row = unit / perRow;
      const int64_t first = unit % perRow * width, end = std::min(first + width, c.channels);
      const SharedNumbers shared = sharedOf(row);
      if (c.isGradient)
        expectGradient(row, unit % perRow, first, end, shared);
      else
        for (int64_t channel : {first, end - 1})
          expectForward(row, channel, shared);
    }
    return std::move(launch);
  }

private:
  static constexpr int64_t kMostNumbers = int64_t(1) << 19;

  void addBuffers() {
    const int64_t values = c.batch * c.positions * c.channels, shared = c.batch * c.positions * c.states,
                  kept = c.batch * c.chunks() * c.states * c.channels;
    launch.random("v", c.f32, values, 1);
    launch.random("delta", c.f32, values, 2);
    Tensor rates({c.states, c.channels}, c.f32);
    for (int64_t i = 0; i < c.states * c.channels; ++i)
      rates.reals[size_t(i)] = double(float(c.rate(i / c.channels, i % c.channels)));
    launch.given("rate", rates);
    launch.random("b", c.f32, shared, 3);
    launch.random("c", c.f32, shared, 4);
    if (c.isGradient) {
      launch.random("states", c.f32, kept, 5);
      launch.random("dy", c.f32, values, 6);
      launch.poison("dv", uint64_t(values) * 4);
      launch.poison("ddelta", uint64_t(values) * 4);
      launch.poison("drate", uint64_t(c.batch * c.states * c.channels) * 4);
      launch.poison("db", uint64_t(c.groups() * shared) * 4);
      launch.poison("dc", uint64_t(c.groups() * shared) * 4);
      launch.poison("the scratch", isForGpus ? gpuScanScratchBytes(uint64_t(c.batch), uint64_t(c.channels),
                                                                   uint64_t(c.chunk), uint64_t(c.states))
                                             : scanScratchBytes(uint64_t(c.chunk), uint64_t(c.states)));
    } else {
      launch.poison("y", uint64_t(values) * 4);
      launch.poison("states", uint64_t(kept) * 4);
    }
    if (!c.packed)
      return;
    Tensor starts({c.batch * c.positions}, c.i32);
    for (size_t i = 0; i < starts.integers.size(); ++i)
      starts.integers[i] = c.startOf(int64_t(i) % c.positions);
    launch.given("document_starts", starts);
  }

  std::vector<double> read(unsigned buffer, llvm::function_ref<int64_t(int64_t)> position, int64_t count) {
    std::vector<int64_t> positions(size_t(count), 0);
    for (int64_t i = 0; i < count; ++i)
      positions[size_t(i)] = position(i);
    const Tensor numbers = launch.memory(buffer).elements(c.f32, positions);
    return {numbers.reals.begin(), numbers.reals.end()};
  }
  std::vector<double> ofChannel(unsigned buffer, int64_t row, int64_t channel) {
    return read(buffer, [&](int64_t t) { return c.own(row, t, channel); }, c.positions);
  }
  SharedNumbers sharedOf(int64_t row) {
    const auto at = [&](int64_t i) { return c.shared(row, 0, 0) + i; };
    return {read(3, at, c.positions * c.states), read(4, at, c.positions * c.states)};
  }
  double decay(const std::vector<double> &delta, int64_t t, int64_t n, int64_t channel) const {
    return c.packed && c.startOf(t) == t ? 0 : std::exp(delta[size_t(t)] * double(float(c.rate(n, channel))));
  }

  void expectForward(int64_t row, int64_t channel, const SharedNumbers &shared) {
    const std::vector<double> v = ofChannel(0, row, channel), delta = ofChannel(1, row, channel);
    std::vector<TermSum> y(size_t(c.positions));
    for (int64_t n = 0; n < c.states; ++n) {
      TermSum state;
      for (int64_t t = 0; t < c.positions; ++t) {
        if (t % c.chunk == 0)
          launch.expect(6, c.f32, c.kept(row, t / c.chunk, n, channel), state.value, 0,
                        kTermTolerance * state.magnitude);
        const double factor = decay(delta, t, n, channel);
        state.value *= factor, state.magnitude *= factor;
        const double added = v[size_t(t)] * shared.keys[size_t(t * c.states + n)];
        state.add(added, added);
        const double query = shared.queries[size_t(t * c.states + n)];
        y[size_t(t)].add(query * state.value, query * state.magnitude);
      }
    }
    for (int64_t t : c.someOfPositions())
      expect(5, c.own(row, t, channel), y[size_t(t)]);
  }

  void expect(unsigned buffer, int64_t element, const TermSum &sum) {
    launch.expect(buffer, c.f32, element, sum.value, 0, kTermTolerance * sum.magnitude);
  }

  void expectGradient(int64_t row, int64_t group, int64_t first, int64_t end, const SharedNumbers &shared) {
    const auto numbers = size_t(c.positions * c.states);
    std::vector<TermSum> keys(numbers), queries(numbers);
    for (int64_t channel = first; channel < end; ++channel)
      goBack(row, channel, shared, keys, queries, channel == first || channel == end - 1);
    for (int64_t t : c.someOfPositions())
      for (int64_t n : {int64_t(0), c.states - 1}) {
        const int64_t element = group * c.batch * c.positions * c.states + c.shared(row, t, n);
        expect(10, element, keys[size_t(t * c.states + n)]);
        expect(11, element, queries[size_t(t * c.states + n)]);
      }
  }

  void goBack(int64_t row, int64_t channel, const SharedNumbers &shared, std::vector<TermSum> &keys,
              std::vector<TermSum> &queries, bool isLookedAt) {
    const std::vector<double> v = ofChannel(0, row, channel), delta = ofChannel(1, row, channel),
                              dy = ofChannel(6, row, channel);
    std::vector<TermSum> dv(size_t(c.positions)), ddelta(size_t(c.positions));
    for (int64_t n = 0; n < c.states; ++n) {
      const std::vector<double> kept =
          read(5, [&](int64_t number) { return c.kept(row, number, n, channel); }, c.chunks());
      std::vector<double> factors(size_t(c.positions)), before(factors);
      double state = 0;
      for (int64_t t = 0; t < c.positions; ++t) {
        before[size_t(t)] = t % c.chunk == 0 ? kept[size_t(t / c.chunk)] : state;
        factors[size_t(t)] = decay(delta, t, n, channel);
        state = factors[size_t(t)] * before[size_t(t)] + v[size_t(t)] * shared.keys[size_t(t * c.states + n)];
      }
      TermSum g, rates;
      for (int64_t i = c.positions; i-- > 0;) {
        const auto t = size_t(i), place = size_t(i * c.states + n);
        const double key = shared.keys[place], rate = double(float(c.rate(n, channel)));
        g.add(shared.queries[place] * dy[t], shared.queries[place] * dy[t]);
        dv[t].add(key * g.value, key * g.magnitude);
        keys[place].add(v[t] * g.value, v[t] * g.magnitude);
        const double after = factors[t] * before[t] + v[t] * key;
        queries[place].add(dy[t] * after, std::abs(dy[t]) * (std::abs(factors[t] * before[t]) + std::abs(v[t] * key)));
        g.value *= factors[t], g.magnitude *= factors[t];
        ddelta[t].add(rate * g.value * before[t], rate * g.magnitude * before[t]);
        rates.add(delta[t] * g.value * before[t], delta[t] * g.magnitude * before[t]);
      }
      if (isLookedAt)
        expect(9, (row * c.states + n) * c.channels + channel, rates);
    }
    if (!isLookedAt)
      return;
    for (int64_t t : c.someOfPositions()) {
      expect(7, c.own(row, t, channel), dv[size_t(t)]);
      expect(8, c.own(row, t, channel), ddelta[size_t(t)]);
    }
  }

  const ScanCall c;
  const bool isForGpus;
  LibraryLaunch launch;
};

} // namespace

std::vector<LibraryCase> scanCases(Operation *op, DictionaryAttr kernels) {
  std::vector<LibraryCase> cases;
  std::optional<ScanCall> call;
  if (auto scan = dyn_cast<graph::SelectiveScanOp>(op))
    call = ScanCall::of(scan);
  else if (auto gradient = dyn_cast<graph::SelectiveScanGradOp>(op))
    call = ScanCall::of(gradient);
  if (!call)
    return cases;
  for (const bool isForGpus : {false, true})
    if (const std::string kernel = isForGpus ? gpuKernelOf(kernels, 0) : serviceKernelOf(kernels, "scan_kernel");
        !kernel.empty())
      cases.push_back({kernel, call->text(), isForGpus, [call = *call, isForGpus](const KernelVersion &) {
                         return ScanLaunch(call, isForGpus).make();
                       }});
  return cases;
}

} // namespace ztc::verification
