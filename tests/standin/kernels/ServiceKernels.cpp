// Writes the kernels of a GPU's library calls, as the compiler makes them, for the conformance tests: a plan without
// programs. Without targets it is for the stand-ins.
//
//     ztc-service-kernels OUTPUT [TARGET...]
#include "compiler/Codegen/Codegen.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/Format/plan.pb.h"
#include <cstdio>
#include <fstream>
#include <vector>

using namespace ztc;

/// Those of the attention tests.
struct Heads {
  int64_t dim;
  bool causal = true, windowed = false, packed = false, softcapped = false;
};

int main(int argc, char **argv) {
  if (argc < 2)
    return std::fprintf(stderr, "usage: ztc-service-kernels OUTPUT [TARGET...]\n"), 2;
  std::vector<llvm::StringRef> targets(argv + 2, argv + argc);
  if (targets.empty())
    targets.emplace_back("simt");
  mlir::MLIRContext context;
  KernelModule module(context, {/*host=*/false, /*device=*/true});
  std::vector<KernelDescription> kernels;
  for (int64_t bytes : {2, 4, 8, 16})
    for (bool divided : {false, true})
      kernels.push_back(module.addGpuGather(bytes, divided));
  const mlir::Type f32 = mlir::Float32Type::get(&context), bf16 = mlir::BFloat16Type::get(&context),
                   f16 = mlir::Float16Type::get(&context);
  for (mlir::Type type : {bf16, f16})
    kernels.push_back(module.addGpuNarrow(type));
  for (mlir::Type type : {f32, bf16, f16})
    for (auto [format, columns] : {std::pair(graph::WeightFormat::Nf4, 64),
                                   {graph::WeightFormat::Nf4, 96},
                                   {graph::WeightFormat::Nf4Single, 64},
                                   {graph::WeightFormat::Nf4Single, 96},
                                   {graph::WeightFormat::Mxfp4, 64},
                                   {graph::WeightFormat::Int8, 64}})
      kernels.push_back(module.addGpuDequantize(format, columns, type));
  kernels.push_back(module.addGpuQuantizeFp8(true, false, true, mlir::IntegerType::get(&context, 8)));
  for (mlir::Type type : {f32, bf16}) {
    kernels.push_back(module.addGpuFp8Maxima(type));
    for (bool isE4m3 : {true, false})
      for (auto [byRows, byColumns] : {std::pair(true, false), {false, true}, {true, true}})
        for (auto add : {&ztc::KernelModule::addGpuQuantizeFp8, &ztc::KernelModule::addGpuEncodeFp8})
          kernels.push_back((module.*add)(isE4m3, byRows, byColumns, type));
    kernels.push_back(module.addGpuNoteCodes(type));
  }
  kernels.push_back(module.addGpuFp8Largest());
  for (mlir::Type type : {f32, bf16, f16})
    for (int64_t lanes : {1, 2, 4, 8}) {
      if (lanes > (type == f32 ? 4 : 8))
        continue;
      kernels.push_back(module.addGpuScatterAdd(lanes, type));
    }
  for (const KernelDescription &kernel : module.addGpuRoute())
    kernels.push_back(kernel);
  for (mlir::Type type : {f32, bf16, f16}) {
    for (int64_t width : {1, 2, 4, 8})
      if (width <= (type == f32 ? 4 : 8))
        kernels.push_back(module.addGpuCombine(width, type));
    for (auto [transposeB, outer] : {std::pair(false, false), {true, false}, {false, true}}) {
      kernels.push_back(module.addGpuGroupedGemm({type, f32, transposeB, outer}));
      for (bool isWhole : {true, false})
        if (type != f32)
          kernels.push_back(module.addGpuGroupedGemm({type, type, transposeB, outer, isWhole}));
      if (type != f32)
        kernels.push_back(module.addGpuGroupedGemm({type, f32, transposeB, outer, /*isWhole=*/false}));
    }
  }
  for (bool hasProducts : {false, true})
    kernels.push_back(module.addGpuStatePassing(hasProducts));
  kernels.push_back(module.addGpuUnitLowerInverse());
  for (mlir::Type type : {f32, bf16, f16})
    for (int64_t vocabulary : {8, 9})
      for (bool training : {true, false})
        for (bool weighted : {false, true})
          kernels.push_back(module.addGpuCrossEntropyRows(training, type, vocabulary, {.weighted = weighted}));
  kernels.push_back(module.addGpuLossSum());
  kernels.push_back(module.addGpuDocumentTable());
  for (mlir::Type type : {f32, bf16, f16})
    for (Heads heads : {Heads{8},
                        {16},
                        {24},
                        {32},
                        {8, true, true},
                        {16, true, true},
                        {16, false},
                        {16, true, false, true},
                        {16, true, true, true},
                        {16, true, false, false, true},
                        {16, false, false, false, true},
                        {16, true, true, true, true}})
      for (bool grad : {false, true})
        for (const KernelDescription &kernel : module.addGpuAttention(
                 {heads.dim, heads.causal, heads.windowed, type, heads.packed, heads.softcapped}, grad))
          kernels.push_back(kernel);
  for (bool grad : {false, true})
    for (int64_t states : {4, 6, 16})
      for (bool packed : {false, true})
        kernels.push_back(module.addGpuSelectiveScan(grad, states, packed));
  auto images = module.emit(targets);
  if (failed(images))
    return 1;
  plan::Plan plan;
  for (const KernelImage &made : *images) {
    plan::Image *image = plan.add_images();
    image->set_target(made.target);
    image->set_data(made.bytes);
  }
  for (const KernelDescription &description : kernels) {
    plan::Kernel *kernel = plan.add_kernels();
    kernel->set_name(description.name);
    kernel->set_form(description.form);
    for (size_t i = 0; i < images->size(); ++i) {
      plan::Kernel::Version *version = kernel->add_versions();
      version->set_target((*images)[i].target);
      version->set_image(uint32_t(i));
      version->set_block_threads(description.device.blockThreads);
      version->set_units_per_block(description.device.unitsPerBlock);
      version->set_shared_bytes(description.device.sharedBytes);
    }
  }
  std::ofstream file(argv[1], std::ios::binary);
  return plan.SerializeToOstream(&file) ? 0 : 1;
}
