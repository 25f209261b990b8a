// Steps of selective scans and their gradient, against plain loops in double.
#include "runtime/Format/ScanSizes.h"
#include "tests/conformance/NarrowValues.h"
#include <cmath>

namespace ztc::test {
namespace {

struct ScanCase {
  uint64_t batch, positions, channels, states, chunk;
  bool packed = false;

  uint64_t chunks() const { return scanChunks(positions, chunk); }
  uint64_t groups() const { return scanGroups(channels); }
};

/// Operands and results of a scan and its gradient, by the formulas of graph.selective_scan.
struct ScanReference {
  ScanCase c;
  const float *v, *delta, *rate, *b, *q;
  const int32_t *starts; ///< null: rows hold one document each

  uint64_t own(uint64_t row, uint64_t t, uint64_t d) const { return (row * c.positions + t) * c.channels + d; }
  uint64_t shared(uint64_t row, uint64_t t, uint64_t n) const { return (row * c.positions + t) * c.states + n; }
  uint64_t kept(uint64_t row, uint64_t chunk, uint64_t n, uint64_t d) const {
    return ((row * c.chunks() + chunk) * c.states + n) * c.channels + d;
  }
  double decay(uint64_t row, uint64_t t, uint64_t n, uint64_t d) const {
    if (starts && starts[row * c.positions + t] == int32_t(t))
      return 0;
    return std::exp(double(delta[own(row, t, d)]) * double(rate[n * c.channels + d]));
  }
  double added(uint64_t row, uint64_t t, uint64_t n, uint64_t d) const {
    return double(v[own(row, t, d)]) * double(b[shared(row, t, n)]);
  }

  void forward(uint64_t row, uint64_t d, float *y, float *states) const {
    std::vector<double> state(c.states);
    for (uint64_t t = 0; t < c.positions; ++t) {
      double sum = 0;
      for (uint64_t n = 0; n < c.states; ++n) {
        if (t % c.chunk == 0)
          states[kept(row, t / c.chunk, n, d)] = float(state[n]);
        state[n] = decay(row, t, n, d) * state[n] + added(row, t, n, d);
        sum += state[n] * double(q[shared(row, t, n)]);
      }
      y[own(row, t, d)] = float(sum);
    }
  }

  /// `sums`: of db and dc, in double, (positions, states) each.
  void backward(uint64_t row, uint64_t d, const float *states, const float *dy, float *dv, float *ddelta, float *drate,
                std::vector<double> *sums) const {
    for (uint64_t n = 0; n < c.states; ++n)
      drate[(row * c.states + n) * c.channels + d] = 0;
    for (uint64_t t = 0; t < c.positions; ++t)
      dv[own(row, t, d)] = ddelta[own(row, t, d)] = 0;
    for (uint64_t n = 0; n < c.states; ++n) {
      std::vector<double> before(c.positions + 1);
      for (uint64_t t = 0; t < c.positions; ++t) {
        if (t % c.chunk == 0)
          before[t] = double(states[kept(row, t / c.chunk, n, d)]);
        before[t + 1] = decay(row, t, n, d) * before[t] + added(row, t, n, d);
      }
      double g = 0, rates = 0;
      for (uint64_t t = c.positions; t-- > 0;) {
        const uint64_t at = own(row, t, d), place = t * c.states + n;
        // The state after the last position of a chunk is not what was kept, but what follows from the position before.
        const double after = decay(row, t, n, d) * before[t] + added(row, t, n, d);
        g += double(q[shared(row, t, n)]) * double(dy[at]);
        dv[at] += float(g * double(b[shared(row, t, n)]));
        sums[0][place] += g * double(v[at]);
        sums[1][place] += double(dy[at]) * after;
        g *= decay(row, t, n, d);
        ddelta[at] += float(g * before[t] * double(rate[n * c.channels + d]));
        rates += g * before[t] * double(delta[at]);
      }
      drate[(row * c.states + n) * c.channels + d] = float(rates);
    }
  }

  void backwardOfGroup(uint64_t row, uint64_t group, const float *states, const float *dy, float *dv, float *ddelta,
                       float *drate, float *db, float *dc) const {
    std::vector<double> sums[2] = {std::vector<double>(c.positions * c.states),
                                   std::vector<double>(c.positions * c.states)};
    for (uint64_t d = group * kScanGroup; d < std::min(c.channels, (group + 1) * kScanGroup); ++d)
      backward(row, d, states, dy, dv, ddelta, drate, sums);
    for (uint64_t i = 0; i < sums[0].size(); ++i) {
      const uint64_t at = (group * c.batch + row) * c.positions * c.states + i;
      db[at] = float(sums[0][i]), dc[at] = float(sums[1][i]);
    }
  }
};

ScanReference referenceOf(void *const *buffers, const int64_t *scalars, void *starts) {
  const auto of = [&](size_t i) { return static_cast<const float *>(buffers[i]); };
  return {
      {uint64_t(scalars[4]), uint64_t(scalars[0]), uint64_t(scalars[1]), uint64_t(scalars[2]), uint64_t(scalars[3])},
      of(0),
      of(1),
      of(2),
      of(3),
      of(4),
      static_cast<const int32_t *>(starts)};
}

// The host's service kernels, by the same loops.
template <bool packed> void scanRows(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const ScanReference scan = referenceOf(buffers, scalars, packed ? buffers[7] : nullptr);
  const uint64_t vectors = scan.c.channels / kScanLanes;
  for (auto unit = uint64_t(begin); unit < uint64_t(end); ++unit)
    for (uint64_t lane = 0; lane < kScanLanes; ++lane)
      scan.forward(unit / vectors, unit % vectors * kScanLanes + lane, static_cast<float *>(buffers[5]),
                   static_cast<float *>(buffers[6]));
}
template <bool packed> void scanGradRows(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const ScanReference scan = referenceOf(buffers, scalars, packed ? buffers[13] : nullptr);
  const auto of = [&](size_t i) { return static_cast<float *>(buffers[i]); };
  std::memset(buffers[12], 0xff, scanScratchBytes(scan.c.chunk, scan.c.states)); // each worker has its own
  for (auto unit = uint64_t(begin); unit < uint64_t(end); ++unit)
    scan.backwardOfGroup(unit / scan.c.groups(), unit % scan.c.groups(), of(5), of(6), of(7), of(8), of(9), of(10),
                         of(11));
}

std::vector<float> scaled(std::vector<float> values, float scale, bool isPositive) {
  for (float &value : values)
    value = scale * (isPositive ? std::abs(value) : value);
  return values;
}

void expectNear(const std::vector<float> &got, const std::vector<float> &want, const char *what) {
  double difference = 0, norm = 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double(got[i]) - double(want[i]), 2);
    norm += std::pow(double(want[i]), 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 2e-6) << what;
}

void expectScan(const ScanCase &c) {
  SCOPED_TRACE(testing::Message() << c.batch << "x" << c.positions << "x" << c.channels << ", states of " << c.states);
  const uint64_t places = c.batch * c.positions;
  const std::vector<float> v = randomFloats(places * c.channels, 1),
                           delta = scaled(randomFloats(places * c.channels, 2), 1, true),
                           rate = scaled(randomFloats(c.states * c.channels, 3), -1, true),
                           b = randomFloats(places * c.states, 4), q = randomFloats(places * c.states, 5),
                           dy = randomFloats(places * c.channels, 6);
  std::vector<int32_t> starts;
  for (uint64_t row = 0; row < c.batch; ++row)
    for (uint64_t t = 0; t < c.positions; ++t)
      starts.push_back(row ? 0 : t >= c.chunk ? int32_t(c.chunk) : t >= 3 ? 3 : 0);
  const ScanReference reference{
      c, v.data(), delta.data(), rate.data(), b.data(), q.data(), c.packed ? starts.data() : nullptr};
  std::vector<float> y(v.size()), states(c.batch * c.chunks() * c.states * c.channels), dv(v.size()), ddelta(v.size()),
      drate(c.batch * c.states * c.channels), db(c.groups() * places * c.states), dc(db.size());
  for (uint64_t row = 0; row < c.batch; ++row)
    for (uint64_t d = 0; d < c.channels; ++d)
      reference.forward(row, d, y.data(), states.data());
  for (uint64_t row = 0; row < c.batch; ++row)
    for (uint64_t group = 0; group < c.groups(); ++group)
      reference.backwardOfGroup(row, group, states.data(), dy.data(), dv.data(), ddelta.data(), drate.data(), db.data(),
                                dc.data());
  for (uint32_t threads : {1u, 3u}) {
    StepRunner runner({{"scan", c.packed ? scanRows<true> : scanRows<false>},
                       {"scan_grad", c.packed ? scanGradRows<true> : scanGradRows<false>}});
    const auto room = [&](const std::vector<float> &values) { return runner.scratch(values.size() * 4, false); };
    const uint32_t inV = runner.slot(v), inDelta = runner.slot(delta), inRate = runner.slot(rate), inB = runner.slot(b),
                   inQ = runner.slot(q), inDy = runner.slot(dy), inStarts = runner.slot(starts), outY = room(y),
                   outStates = room(states), outDv = room(dv), outDdelta = room(ddelta), outDrate = room(drate),
                   outDb = room(db), outDc = room(dc),
                   scratch = onGpu()
                                 ? runner.scratch(gpuScanScratchBytes(c.batch, c.channels, c.chunk, c.states), false)
                                 : runner.scratch(scanScratchBytes(c.chunk, c.states), true);
    const auto set = [&](plan::Step *step, bool grad) {
      if (c.packed)
        step->add_operands()->set_slot(inStarts);
      plan::SelectiveScan &scan = *step->mutable_selective_scan();
      scan.set_batch(c.batch), scan.set_positions(c.positions), scan.set_channels(c.channels);
      scan.set_states(c.states), scan.set_chunk(c.chunk), scan.set_packed(c.packed), scan.set_grad(grad);
      scan.set_scan_kernel(runner.kernel(grad ? "scan_grad" : "scan"));
      runner.useGpuKernels(scan, {std::string("gpu_selective_scan") + (grad ? "_grad_" : "_") +
                                  std::to_string(c.states) + (c.packed ? "_packed" : "")});
    };
    set(runner.step("scan", {inV, inDelta, inRate, inB, inQ, outY, outStates}), false);
    set(runner.step("scan grad", {inV, inDelta, inRate, inB, inQ, outStates, inDy, outDv, outDdelta, outDrate, outDb,
                                  outDc, scratch}),
        true);
    runner.runOnce(threads);
    const auto compare = [&](uint32_t slot, const std::vector<float> &want, const char *what) {
      expectNear(runner.read<float>(slot, want.size()), want, what);
    };
    compare(outY, y, "y");
    compare(outStates, states, "states");
    compare(outDv, dv, "dv");
    compare(outDdelta, ddelta, "ddelta");
    compare(outDrate, drate, "drate");
    compare(outDb, db, "db");
    compare(outDc, dc, "dc");
  }
}

TEST(SelectiveScanConformance, OfChannels) {
  expectScan({1, 1, 16, 4, 8});
  expectScan({2, 37, 48, 16, 32});
  expectScan({1, 64, 16, 16, 32});
  expectScan({1, 21, 144, 6, 8});
}

TEST(SelectiveScanConformance, OfDocuments) {
  expectScan({2, 37, 48, 16, 32, true});
  expectScan({1, 21, 80, 6, 8, true});
}

} // namespace
} // namespace ztc::test
