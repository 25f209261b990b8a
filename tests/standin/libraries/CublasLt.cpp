// libztc-standin-cublaslt.so: matrix products as cuBLASLt's documentation says them, column-major, one loop after the
// other, in f32. Checks what the real one demands: descriptors that fit, leading dimensions, the alignment that was
// promised when the algorithm was chosen, the workspace, device memory.
//
// ZTC_STAND_IN_CUBLASLT: its version (default 130100).
// ZTC_STAND_IN_ALGORITHMS: offers several algorithms for a product, which add in different orders; by the clock of
// events the one with this number takes a millisecond, the others more, in the order of their numbers. Without it there
// is one.
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Core/Gelu.h"
#include "runtime/Device/cuda/CublasLtApi.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

using namespace ztc;

struct cublasLtContext {
  uint64_t magic = 0x5a54434c;
};

namespace {

bool isFp8(int type) {
  return type == cublaslt::kE4M3 || type == cublaslt::kE5M2;
}

struct MatmulDescription {
  int computeType = cublaslt::kCompute32F;
  int32_t operations[2] = {0, 0};
  int32_t multiprocessors = 0; ///< that it may count on; 0: all
  uint32_t epilogue = cublaslt::kEpilogueDefault;
  const void *bias = nullptr; ///< of D's type, on the device; read when the product runs
  void *aux = nullptr;        ///< GELU's operand, of D's type, on the device
  int64_t auxLeading = 0;
  const float *scales[2] = {nullptr, nullptr}; ///< of fp8 codes, on the device; read when the product runs
};
bool addsBias(const MatmulDescription &description) {
  return description.epilogue != cublaslt::kEpilogueDefault;
}
struct MatrixLayout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t stride = 0;

  uint64_t elementBytes() const { return type == cublaslt::kF32 ? 4 : isFp8(type) ? 1 : 2; }
  uint64_t bytes() const {
    return (uint64_t(batch - 1) * uint64_t(stride) + (columns - 1) * uint64_t(leading) + rows) * elementBytes();
  }
  bool operator==(const MatrixLayout &) const = default;
};
struct MatmulPreference {
  uint64_t workspaceBytes = 0;
  uint32_t reductionSchemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

/// What it can do, in the order in which the heuristic names it.
enum AlgorithmNumber : uint32_t {
  kForward,    ///< k by k
  kHalves,     ///< two halves of k, added in the end; needs workspace
  kBackward,   ///< k by k, the last one first
  kInAnyOrder, ///< in place, where k begins is another place each time. Named although the preference excludes it
  kGreedy,     ///< wants more workspace than there is
  kUnfit,      ///< not for this product after all
  kAlgorithmCount
};

/// The one that is fast; none: there is kForward alone.
std::optional<uint32_t> fastAlgorithm() {
  const char *text = std::getenv("ZTC_STAND_IN_ALGORITHMS");
  return text ? std::optional(uint32_t(std::strtoul(text, nullptr, 10))) : std::nullopt;
}

/// What the real one keeps in its opaque algorithm: which one, and for which call it was chosen.
struct ChosenAlgorithm {
  uint64_t problem;
  uint64_t workspaceBytes;
  uint32_t alignments[4];
  uint32_t version; ///< of the library
  uint32_t number;
};
static_assert(sizeof(ChosenAlgorithm) <= sizeof(cublaslt::Algorithm));

uint64_t hash(const MatmulDescription &description, const MatrixLayout &a, const MatrixLayout &b,
              const MatrixLayout &c) {
  uint64_t value = 14695981039346656037u;
  const auto add = [&](uint64_t word) { value = (value ^ word) * 1099511628211u; };
  add(uint64_t(description.operations[0]) << 1 | uint64_t(description.operations[1]));
  add(uint64_t(description.multiprocessors));
  add(uint64_t(description.epilogue));
  add(uint64_t(description.auxLeading));
  for (const float *scale : description.scales)
    add(scale != nullptr); // an algorithm that was chosen without scales need not take any
  for (const MatrixLayout *layout : {&a, &b, &c})
    for (uint64_t word : {uint64_t(layout->type), layout->rows, layout->columns, uint64_t(layout->leading),
                          uint64_t(layout->batch), uint64_t(layout->stride)})
      add(word);
  return value;
}

/// Empty, or why the library would refuse.
std::string mismatch(const MatmulDescription &description, const MatrixLayout &a, const MatrixLayout &b,
                     const MatrixLayout &c) {
  const bool ta = description.operations[0] != 0, tb = description.operations[1] != 0;
  const uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
  const uint64_t k2 = tb ? b.columns : b.rows, n = tb ? b.rows : b.columns;
  if (m != c.rows || n != c.columns || k != k2)
    return "sizes do not fit";
  if (isFp8(a.type) || isFp8(b.type)) {
    // What cuBLASLt's table of types and its "TN" rule say of GPUs before sm_100.
    if (!isFp8(a.type) || !isFp8(b.type) || (a.type == cublaslt::kE5M2 && b.type == cublaslt::kE5M2) || isFp8(c.type))
      return "types do not fit";
    if (!ta || tb)
      return "fp8 codes in another form than TN";
    for (uint64_t size : {m, n, k, uint64_t(a.leading), uint64_t(b.leading)})
      if (size % 16)
        return "sizes of fp8 codes that are not multiples of 16";
  } else if (a.type != b.type || (c.type != a.type && c.type != cublaslt::kF32)) {
    return "types do not fit";
  }
  if (addsBias(description) && (isFp8(a.type) || !description.bias))
    return "an epilogue without its bias, or of fp8 codes";
  if (description.epilogue == cublaslt::kEpilogueGeluAuxBias &&
      (!description.aux || description.auxLeading % 8 || description.auxLeading < int64_t(c.rows) || c.batch > 1))
    return "the auxiliary matrix of an epilogue is missing, or its leading dimension is too small or not divisible by "
           "8";
  if (a.batch != b.batch || a.batch != c.batch)
    return "batch counts differ";
  for (const MatrixLayout *layout : {&a, &b, &c})
    if (layout->leading < int64_t(layout->rows) || !layout->rows || !layout->columns)
      return "a leading dimension is smaller than its rows";
  return "";
}

/// Rounded to ten bits after the leading one, ties to even.
float toTf32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) != 0x7f800000u)
    bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  return std::bit_cast<float>(bits);
}

float readElement(const void *from, uint64_t index, int type, bool tf32 = false) {
  if (type == cublaslt::kF32) {
    const float value = static_cast<const float *>(from)[index];
    return tf32 ? toTf32(value) : value;
  }
  if (isFp8(type))
    return fromFp8(static_cast<const uint8_t *>(from)[index],
                   type == cublaslt::kE4M3 ? Fp8Format::E4m3 : Fp8Format::E5m2);
  const uint16_t bits = static_cast<const uint16_t *>(from)[index];
  return type == cublaslt::kBF16 ? fromBf16(bits) : fromF16(bits);
}
void writeElement(void *to, uint64_t index, int type, float value) {
  if (type == cublaslt::kF32)
    static_cast<float *>(to)[index] = value;
  else
    static_cast<uint16_t *>(to)[index] = type == cublaslt::kBF16 ? toBf16(value) : toF16(value);
}

struct Product {
  MatmulDescription description;
  MatrixLayout a, b, c;
  float alpha = 1, beta = 0;
  const void *first = nullptr, *second = nullptr, *added = nullptr; ///< added: what beta multiplies
  void *result = nullptr;
  uint32_t algorithm = kForward;

  void run() const {
    const std::optional<uint32_t> fast = fastAlgorithm();
    if (fast)
      standin::stateTime(algorithm == *fast ? 1 : 2 + algorithm);
    for (int32_t item = 0; item < c.batch; ++item)
      runItem(uint64_t(item));
  }

private:
  void runItem(uint64_t item) const {
    const bool tf32 = description.computeType == cublaslt::kCompute32FFastTf32;
    const bool ta = description.operations[0] != 0, tb = description.operations[1] != 0;
    const uint64_t m = c.rows, n = c.columns, k = ta ? a.rows : a.columns;
    const uint64_t at = item * uint64_t(a.stride), bt = item * uint64_t(b.stride), ct = item * uint64_t(c.stride);
    static std::atomic<uint64_t> calls{0};
    const uint64_t start = algorithm == kInAnyOrder ? ++calls : 0;
    // op(A) by columns, so that the inner loop is over neighbours.
    std::vector<float> columns(m * k), sums(m), firstHalf(m);
    for (uint64_t l = 0; l < k; ++l)
      for (uint64_t i = 0; i < m; ++i)
        columns[l * m + i] =
            readElement(first, at + (ta ? i * uint64_t(a.leading) + l : l * uint64_t(a.leading) + i), a.type, tf32);
    const float scale = isFp8(a.type) ? *description.scales[0] * *description.scales[1] : 1.0f;
    if (std::ranges::all_of(columns, [](float value) { return value == 0; }))
      standin::countCall("products of zeros");
    for (uint64_t j = 0; j < n; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (uint64_t step = 0; step < k; ++step) {
        const uint64_t l = algorithm == kBackward ? k - 1 - step : (step + start) % k;
        if (algorithm == kHalves && step == k / 2) {
          firstHalf = sums;
          std::fill(sums.begin(), sums.end(), 0.0f);
        }
        const float factor =
            readElement(second, bt + (tb ? l * uint64_t(b.leading) + j : j * uint64_t(b.leading) + l), b.type, tf32);
        const float *column = columns.data() + l * m;
        for (uint64_t i = 0; i < m; ++i)
          sums[i] += column[i] * factor;
      }
      if (algorithm == kHalves)
        for (uint64_t i = 0; i < m; ++i)
          sums[i] += firstHalf[i];
      for (uint64_t i = 0; i < m; ++i) {
        const uint64_t place = ct + j * uint64_t(c.leading) + i;
        // Beta 0 does not read: what was there may be no number.
        const float before = beta == 0 ? 0 : beta * readElement(added, place, c.type);
        float value = alpha * (isFp8(a.type) ? sums[i] * scale : sums[i]) + before;
        if (addsBias(description))
          value += readElement(description.bias, i, c.type);
        if (description.epilogue == cublaslt::kEpilogueGeluAuxBias)
          writeElement(description.aux, j * uint64_t(description.auxLeading) + i, c.type, value);
        if (description.epilogue > cublaslt::kEpilogueBias)
          value = geluTanh(value);
        writeElement(result, place, c.type, value);
      }
    }
  }
};

cublaslt::Status refuse(const std::string &why) {
  std::fprintf(stderr, "STAND-IN CUBLASLT: %s\n", why.c_str());
  return cublaslt::kInvalidValue;
}

} // namespace

namespace ztc::cublaslt {
#define ZTC_DECLARE(function, result, arguments) extern "C" result function arguments;
ZTC_CUBLASLT_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE

extern "C" {

const char *ztcStandIn() {
  return "cublaslt";
}

size_t cublasLtGetVersion() {
  const char *text = std::getenv("ZTC_STAND_IN_CUBLASLT");
  return text ? std::strtoull(text, nullptr, 10) : 130100;
}
const char *cublasLtGetStatusString(Status status) {
  return status == kInvalidValue  ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == kAllocFailed ? "CUBLAS_STATUS_ALLOC_FAILED"
                                  : "CUBLAS_STATUS as the stand-in says on stderr";
}
Status cublasLtCreate(Handle *handle) {
  *handle = new cublasLtContext;
  return kSuccess;
}
Status cublasLtDestroy(Handle handle) {
  delete handle;
  return kSuccess;
}
Status cublasLtMatmulDescCreate(Description *description, int computeType, int scaleType) {
  if ((computeType != kCompute32F && computeType != kCompute32FFastTf32) || scaleType != kF32)
    return refuse("sums that are not f32");
  *description = new MatmulDescription{computeType};
  return kSuccess;
}
Status cublasLtMatmulDescDestroy(Description description) {
  delete static_cast<MatmulDescription *>(description);
  return kSuccess;
}
Status cublasLtMatmulDescSetAttribute(Description description, int attribute, const void *value, size_t bytes) {
  auto *to = static_cast<MatmulDescription *>(description);
  if (attribute == kDescriptionScaleA || attribute == kDescriptionScaleB) {
    if (bytes != sizeof(void *))
      return refuse("a scale's pointer of another size");
    std::memcpy(&to->scales[attribute - kDescriptionScaleA], value, bytes);
    return kSuccess;
  }
  if (attribute == kDescriptionBiasPointer) {
    if (bytes != sizeof to->bias)
      return refuse("a bias's pointer of another size");
    std::memcpy(&to->bias, value, bytes);
    return kSuccess;
  }
  if (attribute == kDescriptionEpilogueAuxPointer || attribute == kDescriptionEpilogueAuxLd) {
    if (bytes != sizeof to->aux)
      return refuse("an auxiliary matrix's pointer or leading dimension of another size");
    std::memcpy(attribute == kDescriptionEpilogueAuxLd ? static_cast<void *>(&to->auxLeading) : &to->aux, value, bytes);
    return kSuccess;
  }
  if (attribute == kDescriptionEpilogue) {
    if (bytes != sizeof to->epilogue)
      return refuse("an epilogue of another size");
    std::memcpy(&to->epilogue, value, bytes);
    return to->epilogue == kEpilogueDefault || to->epilogue == kEpilogueBias || to->epilogue == kEpilogueGeluBias ||
                   to->epilogue == kEpilogueGeluAuxBias
               ? kSuccess
               : refuse("an epilogue that the stand-in does not know");
  }
  if (attribute == kDescriptionSmCountTarget) {
    if (bytes != sizeof to->multiprocessors)
      return refuse("a number of multiprocessors of another size");
    std::memcpy(&to->multiprocessors, value, bytes);
    return to->multiprocessors >= 0 ? kSuccess : refuse("a negative number of multiprocessors");
  }
  if (bytes != sizeof(int32_t) || (attribute != kDescriptionTransA && attribute != kDescriptionTransB))
    return refuse("an attribute of a product that the stand-in does not know");
  std::memcpy(&to->operations[attribute - kDescriptionTransA], value, bytes);
  return kSuccess;
}
Status cublasLtMatrixLayoutCreate(Layout *layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  if (type != kF32 && type != kBF16 && type != kF16 && !isFp8(type))
    return refuse("a matrix of an unknown type");
  *layout = new MatrixLayout{type, rows, columns, leading};
  return kSuccess;
}
Status cublasLtMatrixLayoutDestroy(Layout layout) {
  delete static_cast<MatrixLayout *>(layout);
  return kSuccess;
}
Status cublasLtMatrixLayoutSetAttribute(Layout layout, int attribute, const void *value, size_t bytes) {
  auto *to = static_cast<MatrixLayout *>(layout);
  if (attribute == kLayoutBatchCount && bytes == sizeof to->batch)
    std::memcpy(&to->batch, value, bytes);
  else if (attribute == kLayoutStridedBatchOffset && bytes == sizeof to->stride)
    std::memcpy(&to->stride, value, bytes);
  else
    return refuse("an attribute of a matrix that the stand-in does not know");
  return kSuccess;
}
Status cublasLtMatmulPreferenceCreate(Preference *preference) {
  *preference = new MatmulPreference;
  return kSuccess;
}
Status cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete static_cast<MatmulPreference *>(preference);
  return kSuccess;
}
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute, const void *value, size_t bytes) {
  auto *to = static_cast<MatmulPreference *>(preference);
  if (attribute == kPreferenceMaxWorkspaceBytes && bytes == sizeof to->workspaceBytes)
    std::memcpy(&to->workspaceBytes, value, bytes);
  else if (attribute == kPreferenceReductionSchemes && bytes == sizeof to->reductionSchemes)
    std::memcpy(&to->reductionSchemes, value, bytes);
  else if (attribute >= kPreferenceAlignmentA && attribute <= kPreferenceAlignmentD && bytes == sizeof(uint32_t))
    std::memcpy(&to->alignments[attribute - kPreferenceAlignmentA], value, bytes);
  else
    return refuse("an attribute of a preference that the stand-in does not know");
  return kSuccess;
}
Status cublasLtMatmulAlgoGetHeuristic(Handle handle, Description description, Layout a, Layout b, Layout c, Layout d,
                                      Preference preference, int requested, HeuristicResult *results, int *returned) {
  const auto &what = *static_cast<MatmulDescription *>(description);
  const auto &first = *static_cast<MatrixLayout *>(a), &second = *static_cast<MatrixLayout *>(b),
             &third = *static_cast<MatrixLayout *>(c), &result = *static_cast<MatrixLayout *>(d);
  *returned = 0;
  if (!handle || requested < 1)
    return kInvalidValue;
  if (std::string why = mismatch(what, first, second, third); !why.empty() || !(third == result))
    return refuse(why.empty() ? "C and D differ" : why);
  const auto &wish = *static_cast<MatmulPreference *>(preference);
  for (uint32_t number = kForward; number < (fastAlgorithm() ? kAlgorithmCount : kHalves) && *returned < requested;
       ++number) {
    if (number == kHalves && (wish.workspaceBytes < 1024 || !(wish.reductionSchemes & kReductionComputeType)))
      continue;
    ChosenAlgorithm chosen{hash(what, first, second, third), 0, {}, uint32_t(cublasLtGetVersion()), number};
    // Where it may, it takes some workspace, and uses all of it.
    chosen.workspaceBytes = wish.workspaceBytes >= 1024 ? 1024 : 0;
    if (number == kGreedy)
      chosen.workspaceBytes = wish.workspaceBytes + 1;
    std::memcpy(chosen.alignments, wish.alignments, sizeof chosen.alignments);
    HeuristicResult &to = results[(*returned)++];
    to = {};
    std::memcpy(&to.algorithm, &chosen, sizeof chosen);
    to.workspaceBytes = chosen.workspaceBytes;
    to.state = number == kUnfit ? cublaslt::kNotSupported : kSuccess;
  }
  return *returned ? kSuccess : cublaslt::kNotSupported;
}
Status cublasLtMatmulAlgoCheck(Handle handle, Description description, Layout a, Layout b, Layout c, Layout d,
                               const Algorithm *algorithm, HeuristicResult *result) {
  ChosenAlgorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (!handle || chosen.version != cublasLtGetVersion() ||
      chosen.problem != hash(*static_cast<MatmulDescription *>(description), *static_cast<MatrixLayout *>(a),
                             *static_cast<MatrixLayout *>(b), *static_cast<MatrixLayout *>(c)))
    return kInvalidValue;
  *result = {};
  result->workspaceBytes = chosen.workspaceBytes;
  return chosen.number < kUnfit ? kSuccess : cublaslt::kNotSupported;
}
Status cublasLtMatmulAlgoConfigGetAttribute(const Algorithm *algorithm, int attribute, void *value, size_t bytes,
                                            size_t *written) {
  ChosenAlgorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (attribute != kConfigReductionScheme || bytes != sizeof(uint32_t))
    return refuse("an attribute of an algorithm that the stand-in does not know");
  const uint32_t scheme = chosen.number == kInAnyOrder ? kReductionInPlace
                          : chosen.number == kHalves   ? kReductionComputeType
                                                       : kReductionNone;
  std::memcpy(value, &scheme, bytes);
  *written = bytes;
  return kSuccess;
}
Status cublasLtMatmul(Handle handle, Description description, const void *alpha, const void *a, Layout layoutA,
                      const void *b, Layout layoutB, const void *beta, const void *c, Layout layoutC, void *d,
                      Layout layoutD, const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                      cuda::Stream stream) {
  Product product{*static_cast<MatmulDescription *>(description),
                  *static_cast<MatrixLayout *>(layoutA),
                  *static_cast<MatrixLayout *>(layoutB),
                  *static_cast<MatrixLayout *>(layoutC),
                  *static_cast<const float *>(alpha),
                  *static_cast<const float *>(beta),
                  a,
                  b,
                  c,
                  d};
  if (!handle || !algorithm)
    return refuse("a product without handle or algorithm");
  if (!(*static_cast<MatrixLayout *>(layoutD) == product.c))
    return refuse("the layouts of C and D differ");
  ChosenAlgorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (chosen.version != cublasLtGetVersion() || chosen.number >= kUnfit)
    return refuse("the algorithm is of another version of the library, or none");
  product.algorithm = chosen.number;
  if (const int32_t count = product.description.multiprocessors)
    standin::countCall(("products for " + std::to_string(count) + " multiprocessors").c_str());
  if (chosen.problem != hash(product.description, product.a, product.b, product.c))
    return refuse("the algorithm was chosen for another product");
  const void *addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(addresses[i]) % chosen.alignments[i] != 0)
      return refuse("an operand is aligned to less than was promised");
  if (workspaceBytes < chosen.workspaceBytes || reinterpret_cast<uintptr_t>(workspace) % 16 != 0 ||
      (chosen.workspaceBytes && !standin::isDeviceMemory(workspace, workspaceBytes)))
    return refuse("the workspace is too small, misaligned, or no device memory");
  const MatrixLayout *layouts[] = {&product.a, &product.b, &product.c, &product.c};
  for (int i = 0; i < 4; ++i)
    if (!standin::isDeviceMemory(addresses[i], layouts[i]->bytes()))
      return refuse("an operand leaves device memory");
  if (isFp8(product.a.type))
    for (const float *scale : product.description.scales)
      if (!scale || reinterpret_cast<uintptr_t>(scale) % 16 != 0 || !standin::isDeviceMemory(scale, sizeof *scale))
        return refuse("fp8 codes without a scale in device memory at a multiple of 16"); // as cuBLASLt 13.1 on an H200
  if (addsBias(product.description)) {
    const void *bias = product.description.bias;
    if (reinterpret_cast<uintptr_t>(bias) % 16 != 0 ||
        !standin::isDeviceMemory(bias, product.c.rows * product.c.elementBytes()))
      return refuse("a bias that is misaligned, or leaves device memory");
    standin::countCall("products with a bias");
  }
  if (product.description.epilogue == kEpilogueGeluAuxBias) {
    const uint64_t bytes = ((product.c.columns - 1) * uint64_t(product.description.auxLeading) + product.c.rows) *
                           product.c.elementBytes();
    if (reinterpret_cast<uintptr_t>(product.description.aux) % 16 != 0 ||
        !standin::isDeviceMemory(product.description.aux, bytes))
      return refuse("an auxiliary matrix that is misaligned, or leaves device memory");
  }
  static std::once_flag once;
  if (!standin::takeLibraryMemory(once))
    return kAllocFailed;
  const bool given = standin::enqueue(stream, [product, workspace, bytes = chosen.workspaceBytes] {
    if (bytes)
      std::memset(workspace, 0x5a, bytes);
    product.run();
  });
  return given ? kSuccess : kExecutionFailed;
}

} // extern "C"
} // namespace ztc::cublaslt
