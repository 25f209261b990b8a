// Attention and its gradient as textbook loops in double.
#pragma once
#include "runtime/Core/Packing.h"
#include "tests/conformance/ReferenceServiceKernels.h"
#include "tests/conformance/Values.h"
#include <algorithm>
#include <vector>

namespace ztc::test {

struct AttentionCase {
  uint64_t batch, seq, heads, kvHeads, dim, block;
  bool causal = true;
  uint64_t window = 0;
  plan::DataType type = plan::F32;
  /// Lengths, of packed rows, the last document goes to the row's end; each row begins with another one.
  std::vector<uint64_t> documents = {};
  double softcap = 0; ///< scores are softcap * tanh(x / softcap); 0: x

  /// Where the document of a position starts.
  uint64_t startOf(uint64_t row, uint64_t position) const {
    uint64_t start = 0;
    for (size_t i = 0; i < documents.size(); ++i) {
      const uint64_t length = documents[(i + row) % documents.size()];
      if (position < start + length)
        break;
      start += length;
    }
    return start;
  }
  DocumentBounds bounds() const {
    DocumentBounds bounds{documents.size() + 1, seq};
    for (uint64_t length : documents)
      bounds.longest -= length;
    for (uint64_t length : documents)
      bounds.longest = std::max(bounds.longest, length);
    return bounds;
  }
  /// (B, S).
  std::vector<int32_t> starts() const {
    std::vector<int32_t> all;
    for (uint64_t i = 0; i < batch * seq; ++i)
      all.push_back(int32_t(startOf(i / seq, i % seq)));
    return all;
  }
};

/// Inputs, and the results in double.
struct AttentionReference {
  std::vector<float> q, k, v, dout;
  std::vector<double> out, lse, dq, dk, dv;

  explicit AttentionReference(const AttentionCase &c) {
    uint64_t queries = c.batch * c.seq * c.heads * c.dim, keys = c.batch * c.seq * c.kvHeads * c.dim;
    q = randomFloats(queries, 1);
    k = randomFloats(keys, 2);
    v = randomFloats(keys, 3);
    dout = randomFloats(queries, 4);
    for (std::vector<float> *tensor : {&q, &k, &v, &dout})
      roundTo(*tensor, c.type);
    out.assign(queries, 0);
    dq.assign(queries, 0);
    dk.assign(keys, 0);
    dv.assign(keys, 0);
    lse.assign(c.batch * c.heads * c.seq, 0);
    for (uint64_t b = 0; b < c.batch; ++b)
      for (uint64_t h = 0; h < c.heads; ++h)
        for (uint64_t i = 0; i < c.seq; ++i)
          row(c, b, h, i);
  }

  void row(const AttentionCase &c, uint64_t b, uint64_t h, uint64_t i) {
    auto queryAt = [&](uint64_t position) { return ((b * c.seq + position) * c.heads + h) * c.dim; };
    auto keyAt = [&](uint64_t position) {
      return ((b * c.seq + position) * c.kvHeads + h / (c.heads / c.kvHeads)) * c.dim;
    };
    uint64_t first = std::max(c.window && i + 1 > c.window ? i + 1 - c.window : 0, c.startOf(b, i)),
             end = c.causal ? i + 1 : c.seq;
    std::vector<double> p(c.seq, 0);
    std::vector<double> slopes(c.seq, 1); ///< of scores by what is capped
    double sum = 0, delta = 0;
    for (uint64_t j = first; j < end; ++j) {
      double score = 0;
      for (uint64_t d = 0; d < c.dim; ++d)
        score += double(q[queryAt(i) + d]) * k[keyAt(j) + d];
      score *= kReferenceScale;
      if (c.softcap != 0) {
        const double bent = std::tanh(score / c.softcap);
        score = bent * c.softcap;
        slopes[j] = 1 - bent * bent;
      }
      p[j] = std::exp(score);
      sum += p[j];
    }
    lse[(b * c.heads + h) * c.seq + i] = std::log(sum);
    for (uint64_t j = first; j < end; ++j) {
      p[j] /= sum;
      for (uint64_t d = 0; d < c.dim; ++d)
        out[queryAt(i) + d] += p[j] * v[keyAt(j) + d];
    }
    for (uint64_t d = 0; d < c.dim; ++d)
      delta += out[queryAt(i) + d] * dout[queryAt(i) + d];
    for (uint64_t j = first; j < end; ++j) {
      double dp = 0;
      for (uint64_t d = 0; d < c.dim; ++d)
        dp += double(dout[queryAt(i) + d]) * v[keyAt(j) + d];
      double ds = p[j] * (dp - delta) * kReferenceScale * slopes[j];
      for (uint64_t d = 0; d < c.dim; ++d) {
        dq[queryAt(i) + d] += ds * k[keyAt(j) + d];
        dk[keyAt(j) + d] += ds * q[queryAt(i) + d];
        dv[keyAt(j) + d] += p[j] * dout[queryAt(i) + d];
      }
    }
  }
};

} // namespace ztc::test
