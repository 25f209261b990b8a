// Graphs of operations for the stand-in of cuDNN: tensors, products, pointwise operations, sums and maxima, views; and
// their execution on the host, one operation after the other.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ztc::standin {

struct CudnnTensor {
  int64_t uid = 0;
  int type = 0; ///< cudnnDataType_t
  int64_t alignment = 0;
  std::vector<int64_t> dimensions, strides;
  bool isVirtual = false; ///< between operations, in no memory
  bool isByValue = false; ///< a scalar in the host's memory
  /// Where each sequence begins, in elements, of a tensor whose sequences have lengths of their own; null: by strides.
  std::shared_ptr<const CudnnTensor> offsets;

  /// From the first element to the end of the last.
  int64_t extent() const;
  uint64_t bytes() const;
  /// False where two elements share a place.
  bool isInjective() const;
  /// One row after the other.
  void pack();
};

struct CudnnOperation {
  enum Kind { Matmul, Pointwise, Reduction, Reshape } kind = Matmul;
  int mode = 0; ///< of pointwise operations and reductions, as cuDNN numbers them
  int64_t axis = -1;
  CudnnTensor x, b, t, y; ///< t: of a selection
  CudnnTensor lengths;    ///< of the sequences of a product that has some of their own
  bool hasB = false, hasT = false;
};

struct CudnnGraph {
  std::vector<CudnnOperation> operations;

  /// Empty, or why the library would refuse.
  std::string mismatch() const;
  /// Tensors in memory or by value, each once.
  std::map<int64_t, CudnnTensor> bound() const;
  /// How long each sequence is; null where all are as long as the tensors.
  const CudnnTensor *lengths() const;
  /// True for the gradient of attention: four products or more.
  bool isGradient() const;
  /// As the real one reports it on Hopper (asked of 9.26 and 9.19, with lengths of 9.28): what its engine adds to the
  /// frontend's own part.
  uint64_t workspaceBytes() const;
  /// `memory` by uid: device memory, and the host's for what is by value.
  /// Empty, or what is wrong with what lies there: it is known only now.
  std::string execute(const std::map<int64_t, void *> &memory) const;
};

} // namespace ztc::standin
