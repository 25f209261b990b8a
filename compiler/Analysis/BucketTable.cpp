#include "compiler/Analysis/BucketTable.h"

using namespace mlir;

namespace ztc {

int64_t BucketTable::elements(Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  if (tensor.hasStaticShape())
    return tensor.getNumElements();
  dist::BucketOp bucket = lookup(dist::bucketOf(tensor));
  return bucket ? int64_t(bucket.getElements()) : 0;
}

int64_t BucketTable::elements() const {
  int64_t sum = 0;
  for (const auto &[name, bucket] : buckets)
    sum += dist::BucketOp(bucket).getElements();
  return sum;
}

int64_t BucketTable::layer(FlatSymbolRefAttr name) const {
  dist::BucketOp bucket = lookup(name);
  return bucket ? layerOf(bucket) : -1;
}

int64_t layerOf(dist::BucketOp bucket) {
  return bucket.getLayer().value_or(-1);
}

} // namespace ztc
