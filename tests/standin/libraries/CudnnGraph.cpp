#include "tests/standin/libraries/CudnnGraph.h"
#include "runtime/Core/FloatTypes.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <cudnn.h>
#include <limits>
#include <memory>

namespace ztc::standin {
namespace {

uint64_t elementBytes(int type) {
  switch (type) {
  case CUDNN_DATA_FLOAT:
  case CUDNN_DATA_INT32:
    return 4;
  case CUDNN_DATA_HALF:
  case CUDNN_DATA_BFLOAT16:
    return 2;
  case CUDNN_DATA_BOOLEAN:
    return 1;
  default:
    return 0;
  }
}

float readElement(const void *from, int64_t index, int type) {
  switch (type) {
  case CUDNN_DATA_FLOAT:
    return static_cast<const float *>(from)[index];
  case CUDNN_DATA_INT32:
    return float(static_cast<const int32_t *>(from)[index]);
  case CUDNN_DATA_HALF:
    return fromF16(static_cast<const uint16_t *>(from)[index]);
  case CUDNN_DATA_BFLOAT16:
    return fromBf16(static_cast<const uint16_t *>(from)[index]);
  default:
    return float(static_cast<const uint8_t *>(from)[index]);
  }
}

float rounded(float value, int type) {
  return type == CUDNN_DATA_HALF       ? fromF16(toF16(value))
         : type == CUDNN_DATA_BFLOAT16 ? fromBf16(toBf16(value))
                                       : value;
}

/// The numbers of a tensor while a graph is executed, laid out by its strides.
struct Values {
  const CudnnTensor *tensor = nullptr;
  std::shared_ptr<std::vector<float>> numbers;

  float &at(const std::vector<int64_t> &index) const { return (*numbers)[size_t(place(index, tensor->dimensions))]; }
  /// Where the number is that stands at this index of a larger tensor: a dimension of 1 is repeated, and of heads each
  /// serves as many neighbours as there are more of them.
  int64_t place(const std::vector<int64_t> &index, const std::vector<int64_t> &of) const {
    int64_t place = 0;
    for (size_t i = 0; i < index.size(); ++i)
      place += index[i] / (of[i] / tensor->dimensions[i]) * tensor->strides[i];
    return place;
  }
  float spread(const std::vector<int64_t> &index, const std::vector<int64_t> &of) const {
    return (*numbers)[size_t(place(index, of))];
  }
};

/// Calls `body` with every index of a tensor, the last dimension fastest.
template <typename Body> void forEach(const std::vector<int64_t> &dimensions, Body &&body) {
  std::vector<int64_t> index(dimensions.size(), 0);
  for (;;) {
    body(index);
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == dimensions[i - 1])
      index[--i] = 0;
    if (i == 0)
      return;
  }
}

float compute(int mode, float x, float b, bool t) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_MAX:
    return std::max(x, b);
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_CMP_GT:
    return x > b;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_CMP_LT:
    return x < b;
  case CUDNN_POINTWISE_CMP_LE:
    return x <= b;
  case CUDNN_POINTWISE_LOGICAL_AND:
    return x != 0 && b != 0;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t ? x : b;
  default: // IDENTITY
    return x;
  }
}

bool isKnown(int mode) {
  constexpr int kKnown[] = {CUDNN_POINTWISE_ADD,      CUDNN_POINTWISE_SUB,       CUDNN_POINTWISE_MUL,
                            CUDNN_POINTWISE_DIV,      CUDNN_POINTWISE_MAX,       CUDNN_POINTWISE_EXP,
                            CUDNN_POINTWISE_LOG,      CUDNN_POINTWISE_CMP_GT,    CUDNN_POINTWISE_CMP_GE,
                            CUDNN_POINTWISE_CMP_LT,   CUDNN_POINTWISE_CMP_LE,    CUDNN_POINTWISE_BINARY_SELECT,
                            CUDNN_POINTWISE_IDENTITY, CUDNN_POINTWISE_GEN_INDEX, CUDNN_POINTWISE_LOGICAL_AND};
  return std::ranges::find(kKnown, mode) != std::end(kKnown);
}

class Execution {
public:
  Execution(const std::map<int64_t, void *> &memory, const CudnnTensor *lengths) : memory_(memory) {
    for (int64_t i = 0; lengths && i < lengths->dimensions[0]; ++i)
      lengths_.push_back(int64_t(readElement(memory.at(lengths->uid), i, lengths->type)));
  }
  /// Empty, or what is wrong.
  const std::string &error() const { return error_; }

  void run(const CudnnOperation &operation) {
    const Values y{&operation.y, std::make_shared<std::vector<float>>(size_t(operation.y.extent()), NAN)};
    switch (operation.kind) {
    case CudnnOperation::Matmul:
      multiply(values(operation.x), values(operation.b), y, operation.lengths.uid != 0);
      break;
    case CudnnOperation::Pointwise:
      pointwise(operation, y);
      break;
    case CudnnOperation::Reduction:
      reduce(values(operation.x), operation.mode, y);
      break;
    case CudnnOperation::Reshape: // the same memory seen in another way
      std::ranges::copy(*values(operation.x).numbers, y.numbers->begin());
      break;
    }
    for (float &number : *y.numbers)
      number = rounded(number, operation.y.type);
    known_[operation.y.uid] = y.numbers;
    if (!operation.y.isVirtual)
      write(y);
  }

private:
  /// Of a tensor of (sequences, heads, rows, elements), or transposed, whose sequences have lengths of their own.
  static size_t axisOfRows(const CudnnTensor &tensor) {
    return tensor.strides[2] == 1 && tensor.dimensions[3] > 1 && tensor.strides[3] != 1 ? 3 : 2;
  }

  /// Of a tensor of (sequences, heads, rows, elements) whose sequences have lengths of their own: where in memory each
  /// begins. A tensor that the frontend has widened to all query heads keeps the offsets of the keys: cuDNN scales
  /// them.
  std::vector<int64_t> beginningsOf(const CudnnTensor &tensor) {
    const auto *offsets = static_cast<const int32_t *>(memory_.at(tensor.offsets->uid));
    const size_t rows = axisOfRows(tensor);
    const int64_t stride = tensor.strides[rows];
    std::vector<int64_t> beginnings;
    int64_t position = 0, end = 0;
    for (size_t i = 0; i < lengths_.size(); ++i) {
      const int64_t step = offsets[i + 1] - offsets[i];
      if (lengths_[i] < 0 || lengths_[i] > tensor.dimensions[rows] || step < 0 ||
          (lengths_[i] ? step % lengths_[i] != 0 || stride % (step / lengths_[i]) != 0 : step != 0))
        error_ = "offsets of a tensor that its sequences' lengths do not explain";
      beginnings.push_back(position * stride);
      position += lengths_[i];
      if (lengths_[i])
        end = beginnings.back() + (lengths_[i] - 1) * stride + (tensor.dimensions[1] - 1) * tensor.strides[1] +
              (tensor.dimensions[5 - rows] - 1) * tensor.strides[5 - rows] + 1;
    }
    if (offsets[0] != 0 || !isDeviceMemory(memory_.at(tensor.uid), uint64_t(end) * elementBytes(tensor.type)))
      error_ = "a tensor of sequences with lengths of their own leaves device memory";
    return beginnings;
  }

  /// Calls `body` with each index of a tensor that is in memory, and the element there.
  template <typename Body> void forEachInMemory(const CudnnTensor &tensor, Body &&body) {
    const std::vector<int64_t> beginnings = tensor.offsets ? beginningsOf(tensor) : std::vector<int64_t>();
    if (!error_.empty())
      return;
    forEach(tensor.dimensions, [&](const std::vector<int64_t> &index) {
      int64_t place = 0;
      for (size_t i = 0; i < index.size(); ++i)
        place += index[i] * tensor.strides[i];
      if (!beginnings.empty()) {
        if (index[axisOfRows(tensor)] >= lengths_[size_t(index[0])])
          return;
        place += beginnings[size_t(index[0])] - index[0] * tensor.strides[0];
      }
      body(index, place);
    });
  }

  Values values(const CudnnTensor &tensor) {
    auto [found, isNew] = known_.try_emplace(tensor.uid);
    if (isNew) {
      found->second = std::make_shared<std::vector<float>>(size_t(tensor.extent()), NAN);
      const Values read{&tensor, found->second};
      const void *from = memory_.at(tensor.uid);
      forEachInMemory(tensor, [&](const std::vector<int64_t> &index, int64_t place) {
        read.at(index) = readElement(from, place, tensor.type);
      });
    }
    return {&tensor, found->second};
  }

  void write(const Values &from) {
    void *to = memory_.at(from.tensor->uid);
    forEachInMemory(*from.tensor, [&](const std::vector<int64_t> &index, int64_t place) {
      const float number = from.at(index);
      if (from.tensor->type == CUDNN_DATA_FLOAT)
        static_cast<float *>(to)[place] = number;
      else
        static_cast<uint16_t *>(to)[place] = from.tensor->type == CUDNN_DATA_HALF ? toF16(number) : toBf16(number);
    });
  }

  /// What a sequence does not have stays undefined; where products run over positions, only those that it has count.
  void multiply(const Values &a, const Values &b, const Values &y, bool hasLengths) {
    const size_t rank = y.tensor->dimensions.size();
    const int64_t depth = a.tensor->dimensions[rank - 1];
    // The first product makes scores of heads, others positions or numbers of heads from them: k is a position where
    // the left factor is of scores.
    const bool overPositions = hasLengths && a.tensor->isVirtual;
    std::vector<int64_t> sizesA = y.tensor->dimensions, sizesB = y.tensor->dimensions;
    sizesA[rank - 1] = sizesB[rank - 2] = depth;
    const int64_t stepA = a.tensor->strides[rank - 1], stepB = b.tensor->strides[rank - 2];
    forEach(y.tensor->dimensions, [&](const std::vector<int64_t> &index) {
      std::vector<int64_t> atA = index, atB = index;
      atA[rank - 1] = atB[rank - 2] = 0;
      const float *row = a.numbers->data() + a.place(atA, sizesA), *column = b.numbers->data() + b.place(atB, sizesB);
      float sum = 0;
      const int64_t length = hasLengths ? lengths_[size_t(index[0])] : 0;
      if (hasLengths && index[rank - 2] >= length)
        return;
      const int64_t end = overPositions ? std::min(depth, length) : depth;
      for (int64_t k = 0; k < end; ++k)
        sum += row[k * stepA] * column[k * stepB];
      y.at(index) = sum;
    });
  }

  void pointwise(const CudnnOperation &operation, const Values &y) {
    const Values x = values(operation.x), b = operation.hasB ? values(operation.b) : x,
                 t = operation.hasT ? values(operation.t) : x;
    const std::vector<int64_t> &sizes = operation.y.dimensions;
    forEach(sizes, [&](const std::vector<int64_t> &index) {
      y.at(index) =
          operation.mode == CUDNN_POINTWISE_GEN_INDEX
              ? float(index[size_t(operation.axis)])
              : compute(operation.mode, x.spread(index, sizes), b.spread(index, sizes), t.spread(index, sizes) != 0);
    });
  }

  static void reduce(const Values &x, int mode, const Values &y) {
    const bool isMax = mode == CUDNN_REDUCE_TENSOR_MAX;
    std::ranges::fill(*y.numbers, isMax ? -std::numeric_limits<float>::infinity() : 0.0f);
    const std::vector<int64_t> &sizes = x.tensor->dimensions;
    forEach(sizes, [&](std::vector<int64_t> index) {
      const float number = x.at(index);
      for (size_t i = 0; i < index.size(); ++i)
        index[i] /= sizes[i] / y.tensor->dimensions[i];
      float &to = y.at(index);
      to = isMax ? std::max(to, number) : to + number;
    });
  }

  const std::map<int64_t, void *> &memory_;
  std::vector<int64_t> lengths_; ///< of each sequence; empty: of the tensors
  std::string error_;
  std::map<int64_t, std::shared_ptr<std::vector<float>>> known_; ///< by uid
};

/// Whether each dimension of `small` divides that of `large`.
bool fits(const std::vector<int64_t> &small, const std::vector<int64_t> &large) {
  if (small.size() != large.size())
    return false;
  for (size_t i = 0; i < small.size(); ++i)
    if (large[i] % small[i] != 0)
      return false;
  return true;
}

std::string mismatchOf(const CudnnTensor &tensor) {
  if (!elementBytes(tensor.type))
    return "a tensor of a type that the stand-in does not know";
  if (tensor.dimensions.empty() || tensor.dimensions.size() != tensor.strides.size() ||
      std::ranges::any_of(tensor.dimensions, [](int64_t size) { return size < 1; }))
    return "a tensor whose sizes and strides do not fit";
  if (tensor.isVirtual || tensor.isByValue)
    return "";
  if (!tensor.isInjective())
    return "a tensor whose elements overlap";
  if (tensor.offsets && (tensor.dimensions.size() != 4 || tensor.offsets->type != CUDNN_DATA_INT32 ||
                         tensor.offsets->dimensions[0] != tensor.dimensions[0] + 1))
    return "offsets that are not one more than there are sequences";
  if (tensor.alignment < 1 || (tensor.alignment & (tensor.alignment - 1)))
    return "a tensor in memory without alignment";
  // Whole rows of heads are copied in pieces of 16 bytes.
  for (size_t i = 0; i + 1 < tensor.strides.size(); ++i)
    if (tensor.type != CUDNN_DATA_FLOAT && tensor.dimensions[i] > 1 && tensor.strides[i] > 1 &&
        uint64_t(tensor.strides[i]) * elementBytes(tensor.type) % 16 != 0)
      return "rows that do not begin at multiples of 16 bytes";
  return "";
}

std::string mismatchOf(const CudnnOperation &operation) {
  const std::vector<int64_t> &x = operation.x.dimensions, &y = operation.y.dimensions, &b = operation.b.dimensions;
  switch (operation.kind) {
  case CudnnOperation::Matmul: {
    if (x.size() < 2 || x.size() != b.size() || x.size() != y.size())
      return "a product of tensors of different rank";
    const size_t rank = x.size();
    if (x[rank - 1] != b[rank - 2] || x[rank - 2] != y[rank - 2] || b[rank - 1] != y[rank - 1])
      return "the sizes of a product do not fit";
    for (size_t i = 0; i + 2 < rank; ++i)
      if (y[i] % x[i] != 0 || y[i] % b[i] != 0)
        return "the batches or heads of a product do not divide";
    return "";
  }
  case CudnnOperation::Pointwise:
    if (!isKnown(operation.mode))
      return "a pointwise operation that the stand-in does not know: mode " + std::to_string(operation.mode);
    if (operation.mode == CUDNN_POINTWISE_GEN_INDEX && (operation.axis < 0 || size_t(operation.axis) >= y.size()))
      return "an index of no axis";
    if (!fits(x, y) || (operation.hasB && !fits(b, y)) || (operation.hasT && !fits(operation.t.dimensions, y)))
      return "the sizes of a pointwise operation do not fit";
    return "";
  case CudnnOperation::Reduction:
    if (operation.mode != CUDNN_REDUCE_TENSOR_ADD && operation.mode != CUDNN_REDUCE_TENSOR_MAX)
      return "a reduction that the stand-in does not know";
    return fits(y, x) ? "" : "the sizes of a reduction do not fit";
  case CudnnOperation::Reshape:
    return operation.x.extent() == operation.y.extent() ? "" : "a view of another size";
  }
  return "";
}

} // namespace

int64_t CudnnTensor::extent() const {
  int64_t last = 0;
  for (size_t i = 0; i < dimensions.size(); ++i)
    last += (dimensions[i] - 1) * strides[i];
  return last + 1;
}

uint64_t CudnnTensor::bytes() const {
  return uint64_t(extent()) * elementBytes(type);
}

bool CudnnTensor::isInjective() const {
  std::vector<std::pair<int64_t, int64_t>> sizes; // stride, dimension
  for (size_t i = 0; i < dimensions.size(); ++i)
    if (dimensions[i] > 1)
      sizes.emplace_back(strides[i], dimensions[i]);
  std::ranges::sort(sizes);
  int64_t end = 1; // of what the smaller strides reach
  for (const auto &[stride, dimension] : sizes) {
    if (stride < end)
      return false;
    end = stride * (dimension - 1) + end;
  }
  return true;
}

void CudnnTensor::pack() {
  int64_t stride = 1;
  for (size_t i = dimensions.size(); i-- > 0; stride *= dimensions[i])
    strides[i] = stride;
}

std::string CudnnGraph::mismatch() const {
  for (const CudnnOperation &operation : operations) {
    for (const CudnnTensor *tensor : {&operation.x, &operation.b, &operation.t, &operation.y})
      if (tensor->uid)
        if (std::string why = mismatchOf(*tensor); !why.empty())
          return why;
    if (std::string why = mismatchOf(operation); !why.empty())
      return why;
    if (operation.kind == CudnnOperation::Matmul && operation.x.type == CUDNN_DATA_FLOAT && !operation.x.isVirtual)
      return "attention in f32";
    // The rows of q, k, v and their gradients.
    for (const CudnnTensor *tensor : {&operation.x, &operation.b, &operation.y})
      if (operation.kind == CudnnOperation::Matmul && tensor->uid && !tensor->isVirtual) {
        const size_t inner = std::ranges::find(tensor->strides, 1) - tensor->strides.begin();
        if (inner == tensor->strides.size() || tensor->dimensions[inner] % 8 != 0 || tensor->dimensions[inner] > 256)
          return "heads whose length is not a multiple of 8 up to 256";
      }
  }
  return "";
}

std::map<int64_t, CudnnTensor> CudnnGraph::bound() const {
  std::map<int64_t, CudnnTensor> tensors;
  for (const CudnnOperation &operation : operations)
    for (const CudnnTensor *tensor : {&operation.x, &operation.b, &operation.t, &operation.y, &operation.lengths})
      if (tensor->uid && !tensor->isVirtual) {
        tensors.emplace(tensor->uid, *tensor);
        if (tensor->offsets)
          tensors.emplace(tensor->offsets->uid, *tensor->offsets);
      }
  return tensors;
}

const CudnnTensor *CudnnGraph::lengths() const {
  for (const CudnnOperation &operation : operations)
    if (operation.lengths.uid)
      return &operation.lengths;
  return nullptr;
}

bool CudnnGraph::isGradient() const {
  return std::ranges::count(operations, CudnnOperation::Matmul, &CudnnOperation::kind) > 2;
}

uint64_t CudnnGraph::workspaceBytes() const {
  constexpr uint64_t kOwn = 256;
  const uint64_t sequences = lengths() ? uint64_t(lengths()->dimensions[0]) : 0;
  if (!isGradient())
    return sequences ? 16640 * ((sequences + 63) / 64) + 768 : kOwn;
  // The first product is of queries and keys.
  const auto product = std::ranges::find(operations, CudnnOperation::Matmul, &CudnnOperation::kind);
  const uint64_t heads = uint64_t(product->y.dimensions[0] * product->y.dimensions[1]),
                 rows = uint64_t(product->y.dimensions[2]), columns = uint64_t(product->y.dimensions[3]),
                 length = uint64_t(product->x.dimensions[3]);
  const bool grouped = product->b.dimensions[1] < product->x.dimensions[1];
  // With lengths the frontend keeps them, and the engine descriptors of memory for each sequence.
  const uint64_t ofHeads = sequences ? (452 * sequences + 127) / 128 * 128 + 1152
                           : grouped ? 2 * 2 * heads * columns * length
                                     : 0;
  const uint64_t turns = (8 * heads * ((rows + 63) / 64) + 127) / 128 * 128;
  const uint64_t scores = 2 * heads * ((rows + 63) / 64 * 64) * ((columns + 127) / 128 * 128);
  // dq is added up in f32 and then copied, or made of the cotangents of all scores, which lie in the workspace.
  const bool addsUp = std::ranges::any_of(operations, [](const CudnnOperation &operation) {
    return operation.kind == CudnnOperation::Pointwise && operation.mode == CUDNN_POINTWISE_IDENTITY &&
           !operation.x.isVirtual;
  });
  return ofHeads + kOwn + (addsUp ? turns : scores);
}

std::string CudnnGraph::execute(const std::map<int64_t, void *> &memory) const {
  Execution execution(memory, lengths());
  for (const CudnnOperation &operation : operations) {
    execution.run(operation);
    if (!execution.error().empty())
      return execution.error();
  }
  return {};
}

} // namespace ztc::standin
