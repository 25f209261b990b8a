#include "compiler/Verification/KernelImages.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/Core/CpuFeatures.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ztc::verification {

using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

KernelImages::KernelImages(ModuleOp module, std::vector<std::string> &gaps) : module(module) {
  for (auto image : module.getOps<plan_ir::ImageOp>()) {
    auto data = dyn_cast<DenseResourceElementsAttr>(image.getData());
    if (const AsmResourceBlob *blob = data ? data.getRawHandle().getBlob() : nullptr)
      open(image.getTarget().str(), image.getSymName().str(), {blob->getData().data(), blob->getData().size()}, gaps);
  }
}

void KernelImages::open(const std::string &target, const std::string &symbol, StringRef bytes,
                        std::vector<std::string> &gaps) {
  RunnableImage image{target, symbol, {}, {}};
  std::string why;
  if (target == "simt") {
    if (llvm::Expected<SimtImage> loaded = SimtImage::load(bytes))
      image.simt = std::move(*loaded);
    else
      why = llvm::toString(loaded.takeError());
  } else if (hostSupports(target)) {
    StatusOr<LoadedImage> loaded = LoadedImage::load({bytes.data(), bytes.size()});
    if (loaded.isOk())
      image.host = std::move(*loaded);
    else
      why = loaded.status().message();
  } else {
    return;
  }
  if (why.empty())
    images.push_back(std::move(image));
  else
    gaps.push_back("kernels for " + target + ": " + why);
}

bool KernelImages::hasHost() const {
  return llvm::any_of(images, [](const RunnableImage &image) { return image.host.has_value(); });
}

std::optional<KernelVersion> KernelImages::versionOf(const RunnableImage &image, StringRef kernel) const {
  ModuleOp step = module;
  auto declared = step.lookupSymbol<plan_ir::KernelOp>(kernel);
  for (Attribute held : declared ? declared.getImages().getValue() : ArrayRef<Attribute>()) {
    if (auto symbol = dyn_cast<FlatSymbolRefAttr>(held)) {
      if (symbol.getValue() == image.symbol)
        return KernelVersion();
      continue;
    }
    auto fields = cast<DictionaryAttr>(held);
    if (fields.getAs<FlatSymbolRefAttr>("image").getValue() != image.symbol)
      continue;
    KernelVersion version;
    if (auto units = fields.getAs<IntegerAttr>("units_per_block"))
      version.unitsPerBlock = uint64_t(units.getInt());
    if (auto threads = fields.getAs<IntegerAttr>("block_threads"))
      version.blockThreads = uint64_t(threads.getInt());
    if (auto outside = fields.getAs<StringAttr>("outside"))
      version.outside = outside.str();
    return version;
  }
  return std::nullopt;
}

bool KernelImages::runOnHost(const RunnableImage &image, const KernelRun &run, int64_t begin, int64_t end) {
  auto kernel = reinterpret_cast<KernelFunction>(image.host->find(run.kernel));
  if (!kernel)
    return false;
  std::vector<void *> buffers(run.buffers.begin(), run.buffers.end());
  kernel(buffers.data(), run.scalars.data(), begin, end);
  return true;
}

llvm::Error KernelImages::runOnEngine(const RunnableImage &image, const KernelVersion &version, const KernelRun &run,
                                      uint64_t first, uint64_t count, bool descending) {
  std::vector<uint64_t> words;
  for (char *buffer : run.buffers)
    words.push_back(reinterpret_cast<uint64_t>(buffer));
  words.insert(words.end(), run.scalars.begin(), run.scalars.end());
  words.push_back(uint64_t(run.extent));
  return image.simt->run({run.kernel, uint32_t(llvm::divideCeil(uint64_t(run.extent), version.unitsPerBlock)),
                          uint32_t(version.blockThreads), words, run.sizes, descending, first, count});
}

std::vector<std::string> outsideGaps(ModuleOp module) {
  std::vector<std::string> gaps;
  for (auto kernel : module.getOps<plan_ir::KernelOp>())
    for (Attribute held : kernel.getImages()) {
      auto fields = dyn_cast<DictionaryAttr>(held);
      auto outside = fields ? fields.getAs<StringAttr>("outside") : StringAttr();
      if (!outside || (outside != "ptx" && outside != "cubin"))
        continue;
      auto image = module.lookupSymbol<plan_ir::ImageOp>(fields.getAs<FlatSymbolRefAttr>("image").getAttr());
      gaps.push_back(("kernel " + kernel.getSymName() + " for " + (image ? image.getTarget() : "a GPU") + ": its " +
                      (outside == "ptx" ? "PTX" : "cubin") + " from outside needs a GPU to run")
                         .str());
    }
  return gaps;
}

} // namespace ztc::verification
