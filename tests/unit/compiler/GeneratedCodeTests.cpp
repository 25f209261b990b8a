// Gates on the machine code of all kernels for GPUs that whole models have: vector accesses, no local memory, registers
// and shared memory within the form's target, no atomics. A kernel that has a reason not to keep one is named here with
// it. tests/long/generated-code.sh runs them over every combination (ZTC_GENERATED_CODE=all).
#include "KernelHarness.h"
#include "MachineCodeGates.h"
#include "Text.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "compiler/Codegen/EmitCubin.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Driver/Session.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Fusion/Passes.h"
#include "passes/Kernels/Selection.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>

using namespace mlir;
using namespace ztc;
namespace fs = std::filesystem;

namespace {

/// Threads of a multiprocessor that a form must leave room for: one that streams has some 16 bytes times two to five
/// operands a thread on the way, and 16 KiB on the way hide the memory's latency.
struct FormTarget {
  const char *form;
  uint64_t threads;
};
constexpr FormTarget kFormTargets[] = {
    {"row", 1024},    {"column_reduce", 1024}, {"row_column_reduce", 512}, {"flat", 512}, {"flat_reduce", 1024},
    {"fold", 768},    {"scalar", 256}, // one block
    {"service", 512},
};
/// Attention and grouped products keep tiles of results in registers: two blocks of 128 threads, or the three that a
/// kernel declares.
constexpr uint64_t kTileThreads = 256;
constexpr uint64_t kMaxStaticShared = 48 << 10, kMultiprocessorShared = 164 << 10, kSystemShared = 1 << 10;

/// Buffers of library calls' kernels that are read or written 16 bytes at a time, by the beginning of the name; the
/// first that fits counts.
struct ServiceRule {
  const char *name;
  std::vector<unsigned> wide;
  const char *reason; ///< why others are not
};
const ServiceRule kServiceRules[] = {
    {"gpu_gather_16", {0, 2}, ""},
    {"gpu_narrow", {0, 1}, ""},
    {"gpu_scatter_add_bf16_8", {1, 2}, ""},
    {"gpu_scatter_add_f16_8", {1, 2}, ""},
    {"gpu_scatter_add_4", {1, 2}, ""},
    {"gpu_cross_entropy_rows", {0}, ""},
    {"gpu_loss_sum", {}, "one float a row"},
    {"gpu_gather_divided_16", {0, 2}, ""},
    {"gpu_route", {}, "a number a choice"},
    {"gpu_combine_bf16_8", {0, 2}, ""},
    {"gpu_combine_f16_8", {0, 2}, ""},
    {"gpu_combine_4", {0, 2}, ""},
    {"gpu_grouped_gemm_bf16", {0, 1, 3}, ""},
    {"gpu_grouped_gemm_f16", {0, 1, 3}, ""},
    {"gpu_grouped_gemm_transposed_bf16", {0, 1, 3}, ""},
    {"gpu_grouped_gemm_transposed_f16", {0, 1, 3}, ""},
    {"gpu_grouped_gemm_outer_bf16", {0, 1, 3}, ""},
    {"gpu_grouped_gemm_outer_f16", {0, 1, 3}, ""},
};

/// Accesses to global memory in PTX: widths in bytes, by parameter.
struct Accesses {
  std::map<unsigned, std::set<unsigned>> loads, stores;

  bool has(unsigned buffer) const { return loads.count(buffer) || stores.count(buffer); }
  /// The narrowest (widest) access of each direction, as one set.
  std::set<unsigned> narrowest(unsigned buffer) const { return ends(buffer, /*first=*/true); }
  std::set<unsigned> widest(unsigned buffer) const { return ends(buffer, /*first=*/false); }

private:
  std::set<unsigned> ends(unsigned buffer, bool first) const {
    std::set<unsigned> result;
    for (const auto *direction : {&loads, &stores})
      if (auto found = direction->find(buffer); found != direction->end())
        result.insert(first ? *found->second.begin() : *found->second.rbegin());
    return result;
  }
};

/// Follows the 64-bit registers from the kernel's parameters to the addresses.
Accesses accessesOf(StringRef body) {
  llvm::StringMap<std::set<unsigned>> origins;
  SmallVector<StringRef> lines;
  body.split(lines, '\n');
  struct Instruction {
    StringRef op, arguments;
    SmallVector<StringRef> registers; ///< 64-bit ones, the result first
  };
  std::vector<Instruction> instructions;
  for (StringRef line : lines) {
    line = line.trim();
    if (line.starts_with("@"))
      line = line.drop_until([](char c) { return c == ' ' || c == '\t'; }).ltrim();
    Instruction i;
    std::tie(i.op, i.arguments) = line.split('\t');
    if (i.arguments.empty())
      std::tie(i.op, i.arguments) = line.split(' ');
    i.op = i.op.trim();
    for (size_t at = 0; (at = i.arguments.find("%rd", at)) != StringRef::npos; at += 3)
      i.registers.push_back(
          i.arguments.drop_front(at).take_until([](char c) { return !llvm::isAlnum(c) && c != '%'; }));
    instructions.push_back(std::move(i));
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instruction &i : instructions) {
      if (i.registers.empty() || !i.arguments.ltrim().starts_with("%rd"))
        continue;
      std::set<unsigned> &result = origins[i.registers.front()];
      size_t before = result.size();
      unsigned number = 0;
      if (i.op.starts_with("ld.param")) {
        StringRef text = i.arguments.split("_param_").second.take_while(llvm::isDigit);
        if (!text.empty() && !text.getAsInteger(10, number))
          result.insert(number);
      } else if (!i.op.starts_with("ld.")) {
        for (StringRef operand : ArrayRef(i.registers).drop_front())
          if (auto from = origins.find(operand); from != origins.end())
            result.insert(from->second.begin(), from->second.end());
      }
      changed |= result.size() != before;
    }
  }
  Accesses accesses;
  for (const Instruction &i : instructions) {
    bool asynchronous = i.op.starts_with("cp.async") && i.op.contains("global");
    if ((!i.op.starts_with("ld.global") && !i.op.starts_with("st.global") && !asynchronous) || i.registers.empty())
      continue;
    unsigned bits = 0, count = 1;
    i.op.rsplit('.').second.drop_front().getAsInteger(10, bits);
    if (size_t at = i.op.find(".v"); at != StringRef::npos)
      i.op.substr(at + 2, 1).getAsInteger(10, count);
    StringRef address = i.arguments.drop_front(i.arguments.rfind_insensitive(i.op.starts_with("st") ? "[%rd" : "%rd"));
    if (i.op.starts_with("st"))
      address = i.arguments.drop_front(i.arguments.find('[') + 1);
    else if (size_t bracket = i.arguments.rfind('['); bracket != StringRef::npos)
      address = i.arguments.drop_front(bracket + 1);
    address = address.take_until([](char c) { return !llvm::isAlnum(c) && c != '%'; });
    for (unsigned parameter : origins[address])
      (i.op.starts_with("st") ? accesses.stores : accesses.loads)[parameter].insert(asynchronous ? 16
                                                                                                 : bits * count / 8);
  }
  return accesses;
}

/// A kernel with what the gates ask of it.
struct GatedKernel {
  std::string form, origin;
  /// Buffers that rows let access 16 bytes at a time; `ends`: but for the ends of a range.
  std::vector<unsigned> wide;
  bool ends = false;
  bool wideLoads = true, wideStores = true; ///< nothing that is loaded (stored) has to be narrower
  bool byMatrices = false;                  ///< attention by the matrix instruction
};

/// The bytes of a tensor's elements where they are data; 0 of flags.
int64_t dataBytes(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isInteger(1) ? 0 : element.getIntOrFloatBitWidth() / 8;
}

/// Whether attention goes through the matrix instruction.
bool byMatrices(Type type, int64_t headDim) {
  return dataBytes(type) == 2 && headDim % 16 == 0 && headDim <= 128;
}

/// What every piece of a row in the group is a multiple of, in elements: of the last dimensions, and of where slices
/// begin and end.
int64_t pieceElements(graph::FusionOp group) {
  int64_t elements = 0;
  auto look = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && tensor.hasStaticShape() && tensor.getRank() && tensor.getShape().back() > 1)
      elements = std::gcd(elements, tensor.getShape().back());
  };
  Block &body = group->getRegion(0).front();
  llvm::for_each(body.getArgumentTypes(), look);
  for (Operation &op : body)
    llvm::for_each(op.getResultTypes(), look);
  return elements;
}

/// Fewer elements than this are parameters of the step.
constexpr int64_t kLeastElements = 32;

/// Whether a kernel is a product of groups' rows by the matrix instruction.
bool isGroupedByMatrices(StringRef name) {
  return name.starts_with("gpu_grouped_gemm") && name.contains("f16");
}

/// The kernels of any number of models, in one module: equal ones once.
struct ModelKernels {
  KernelModule module{test::kernelContext(), {/*host=*/false, /*device=*/true}};
  std::map<std::string, GatedKernel> kernels;

  void add(const fs::path &file, uint64_t seq, StoragePrecision precision, unsigned zero, const std::string &recompute,
           bool fuses = true) {
    driver::CompileOptions options;
    options.input = file;
    options.batch = 1;
    options.seq = seq;
    options.precision = precision;
    options.zero = zero;
    options.recompute = recompute;
    std::string origin = file.parent_path().filename().string() + " " + wordOf(precision) + " ZeRO-" +
                         std::to_string(zero) + " recompute " + recompute;
    driver::Session session(options);
    ASSERT_TRUE(session.isValid() && succeeded(session.run(Phase::Fuse))) << origin;
    if (!fuses) {
      PassManager split(session.module()->getContext());
      split.addPass(createSplitGroups());
      ASSERT_TRUE(succeeded(split.run(session.module()))) << origin;
    }
    ASSERT_TRUE(succeeded(session.run(Phase::Assign))) << origin;
    OwningOpRef<ModuleOp> step = test::inKernelContext(session.module());
    ASSERT_TRUE(step) << origin;
    for (auto select : {selectGroupKernels, selectLibraryKernels}) {
      auto selected = select(*step, module);
      ASSERT_TRUE(succeeded(selected)) << origin;
      for (const SelectedKernel &kernel : *selected)
        note(kernel.description, origin);
    }
    step->walk([&](graph::FusionOp group) { noteBuffers(group); });
    step->walk([&](Operation *op) { noteAttention(op); });
  }

private:
  void note(const KernelDescription &kernel, const std::string &origin) {
    std::vector<unsigned> wide = wideOfService(kernel.name);
    bool isWide = kernel.form != "service" || !wide.empty();
    kernels.try_emplace(kernel.name, GatedKernel{kernel.form, origin, wide, true, isWide, isWide,
                                                 isGroupedByMatrices(kernel.name) && isWide});
    if (kernel.hasAdd)
      kernels.try_emplace(kernel.name + kernel::kAddSuffix.str(), GatedKernel{kernel.form, origin, {}, true});
  }

  static std::vector<unsigned> wideOfService(const std::string &name) {
    if (isGroupedByMatrices(name) && StringRef(name).ends_with("_cut"))
      return {}; // rows may begin anywhere
    for (const ServiceRule &rule : kServiceRules)
      if (StringRef(name).starts_with(rule.name))
        return rule.wide;
    return {};
  }

  void noteBuffers(graph::FusionOp group) {
    int64_t piece = pieceElements(group);
    for (auto launch : group->getAttrOfType<ArrayAttr>(plan_ir::kLaunches).getAsRange<kernel::ScheduleAttr>()) {
      bool flat = launch.getFlatBlock() != 0, wideLoads = true, wideStores = true;
      std::vector<unsigned> wide;
      auto buffers = launch.getBuffers().asArrayRef();
      for (unsigned i = 0; i < buffers.size() / 3; ++i) {
        auto kind = KernelBuffer::Kind(buffers[3 * i]);
        // Partial sums of a flat range are a number a block.
        Type type = kind == KernelBuffer::Kind::Operand  ? group->getOperand(buffers[3 * i + 1]).getType()
                    : kind == KernelBuffer::Kind::Result ? group->getResult(buffers[3 * i + 1]).getType()
                    : flat                               ? Type()
                                                         : Type(Float32Type::get(group.getContext()));
        auto tensor = dyn_cast_or_null<RankedTensorType>(type);
        if (tensor && tensor.hasStaticShape() && tensor.getNumElements() < kLeastElements)
          continue;
        bool isWide = type && !(tensor && tensor.hasStaticShape() && tensor.getShape().back() == 1) &&
                      (flat ? dataBytes(type) > 0 : piece * dataBytes(type) > 0 && piece * dataBytes(type) % 16 == 0);
        if (isWide && (tensor || piece))
          wide.push_back(i);
        else
          (buffers[3 * i + 2] ? wideStores : wideLoads) = false;
      }
      for (std::string name :
           {launch.getKernel().getValue().str(), launch.getKernel().getValue().str() + kernel::kAddSuffix.str()})
        if (auto known = kernels.find(name); known != kernels.end())
          known->second.wide = wide, known->second.ends = flat, known->second.wideLoads = wideLoads,
          known->second.wideStores = wideStores;
    }
  }

  void noteAttention(Operation *op) {
    auto services = op->getAttrOfType<DictionaryAttr>(plan_ir::kServiceKernels);
    if (!isa<graph::AttentionOp, graph::AttentionGradOp>(op) || !services)
      return;
    auto q = cast<RankedTensorType>(op->getOperand(0).getType());
    for (auto symbol : services.getAs<ArrayAttr>("gpu_kernels").getAsRange<FlatSymbolRefAttr>()) {
      StringRef name = symbol.getValue();
      GatedKernel &kernel = kernels.at(name.str());
      // Four elements at once: 8 bytes where they are narrow; with matrix instructions 16 on the way in.
      bool matrices = byMatrices(q, q.getShape().back());
      kernel.byMatrices = matrices && !name.contains("delta");
      kernel.wideLoads = kernel.wideStores = kernel.byMatrices;
      if (name.contains("delta") ? dataBytes(q) != 4 : dataBytes(q) == 2 && !matrices)
        continue;
      if (q.getShape().back() % 4 != 0)
        continue; // heads of odd sizes: element by element
      kernel.wide = name.contains("delta") ? std::vector<unsigned>{0, 1} : std::vector<unsigned>{0, 1, 2};
      kernel.ends = false;
    }
  }
};

void checkText(const KernelImage &image, const std::map<std::string, GatedKernel> &kernels) {
  StringRef ptx = image.ptx;
  for (const char *bad : {".local", "atom.", "\tred.", "call.uni", "div.full", "div.approx", "sqrt.approx", ".ftz"})
    EXPECT_FALSE(ptx.contains(bad)) << bad << " on " << image.target;
  for (const auto &[name, kernel] : kernels) {
    SCOPED_TRACE(name + " of " + kernel.origin + " on " + image.target);
    StringRef body = test::kernelText(ptx, name);
    ASSERT_FALSE(body.empty());
    EXPECT_TRUE(body.contains(".reqntid " + std::to_string(image.launches.at(name).blockThreads)));
    Accesses accesses = accessesOf(body);
    for (unsigned buffer : kernel.wide) {
      EXPECT_TRUE(kernel.ends || accesses.has(buffer)) << "buffer " << buffer << " is never touched";
      // A result may need none of an operand's elements (the old parameter where its master is whole).
      for (unsigned bytes : kernel.ends ? accesses.widest(buffer) : accesses.narrowest(buffer))
        EXPECT_GE(bytes, 16u) << "buffer " << buffer;
    }
  }
}

void checkResources(const KernelImage &image, const std::map<std::string, GatedKernel> &kernels) {
  for (const auto &[name, kernel] : kernels) {
    SCOPED_TRACE(name + " of " + kernel.origin + " on " + image.target);
    auto found = image.resources.find(name);
    ASSERT_NE(found, image.resources.end());
    EXPECT_EQ(found->second.localBytes, 0u);
    const DeviceTarget &multiprocessor = *findDeviceTarget(image.target);
    if (multiprocessor.sharedKibibytes << 10 < kMultiprocessorShared)
      continue; // smaller ones hide less: these figures are for GPUs of data centres
    const auto *target = llvm::find_if(kFormTargets, [&](const FormTarget &t) { return kernel.form == t.form; });
    ASSERT_NE(target, std::end(kFormTargets)) << kernel.form;
    // A thread's registers come in eights, a block's shared memory with the system's.
    const DeviceLaunch &launch = image.launches.at(name);
    uint64_t threads = launch.blockThreads, shared = launch.sharedBytes;
    uint64_t blocks = std::min<uint64_t>(65536 / (llvm::alignTo(found->second.registers, 8) * threads),
                                         multiprocessor.threads / threads);
    if (shared)
      blocks = std::min<uint64_t>(blocks, kMultiprocessorShared / (shared + kSystemShared));
    const StringRef kernelName = name;
    const bool hasTiles = (kernelName.starts_with("gpu_attention") && !kernelName.contains("delta")) ||
                          kernelName.starts_with("gpu_grouped_gemm");
    EXPECT_GE(blocks, uint64_t(launch.blocksTogether));
    EXPECT_GE(blocks * threads, hasTiles ? kTileThreads : target->threads)
        << found->second.registers << " registers, " << shared << " bytes of shared memory";
    EXPECT_LE(shared, kMaxStaticShared);
  }
}

bool wantsAll() {
  const char *wanted = std::getenv("ZTC_GENERATED_CODE");
  return wanted && StringRef(wanted) == "all";
}

void checkCode(ModelKernels &models, ArrayRef<StringRef> targets = {"sm_80", "sm_90a", "sm_100a"}) {
  ASSERT_FALSE(models.kernels.empty());
  std::vector<StringRef> wanted = targets.vec();
  if (wantsAll()) {
    wanted.clear();
    for (const DeviceTarget &target : deviceTargets())
      wanted.push_back(target.name);
  }
  auto images = models.module.emit(wanted);
  ASSERT_TRUE(succeeded(images));
  bool assembled = !codegen::findPtxas().empty(), disassembled = true;
  std::map<std::string, MachineCodeForm> forms;
  for (const auto &[name, kernel] : models.kernels)
    forms[name] = {kernel.form, kernel.wideLoads, kernel.wideStores, kernel.byMatrices};
  for (const KernelImage &image : *images) {
    checkText(image, models.kernels);
    if (assembled)
      checkResources(image, models.kernels);
    disassembled &= assembled && checkMachineCode(image, forms);
  }
  if (!assembled)
    GTEST_SKIP() << "no ptxas on this machine: registers, spills and cubins were not looked at";
  if (!disassembled)
    GTEST_SKIP() << "no nvdisasm on this machine: the machine code was not looked at (cmake/get-nvdisasm.sh)";
}

} // namespace

TEST(GeneratedCode, OwnModels) {
  fs::path folder = fs::path(__FILE__).parent_path().parent_path().parent_path() / "golden";
  ModelKernels models;
  for (StoragePrecision precision : {StoragePrecision::Fp32, StoragePrecision::Bf16, StoragePrecision::Fp16})
    for (const char *name : {"grouped", "tied", "head-norms"}) {
      fs::path file = folder / name / "model.onnx";
      if (precision == StoragePrecision::Fp16 && name != StringRef("grouped") && !wantsAll())
        continue; // code of bf16 but for the conversions
      models.add(file, 16, precision, 0, "none");
      models.add(file, 16, precision, 3, "layer");
      if (wantsAll()) {
        models.add(file, 16, precision, 1, "cheap");
        models.add(file, 16, precision, 2, "none", /*fuses=*/false);
      }
    }
  checkCode(models);
}

TEST(GeneratedCode, ExportedModels) {
  const char *fixtures = std::getenv("ZTC_FIXTURES");
  if (!fixtures)
    GTEST_SKIP() << "ZTC_FIXTURES is not set";
  ModelKernels models;
  auto file = [&](const char *name) { return fs::path(fixtures) / name / "dynamo-op18.onnx"; };
  if (!wantsAll()) {
    models.add(file("llama-3.2-1b"), 2048, StoragePrecision::Fp32, 0, "none");
    models.add(file("llama-3.2-1b"), 2048, StoragePrecision::Bf16, 3, "layer");
  } else {
    for (auto [name, seq] : {std::pair("llama-tiny", 32u),
                             {"qwen3-tiny", 32u},
                             {"gpt2-tiny", 32u},
                             {"llama-mini", 256u},
                             {"llama-3.2-1b", 2048u},
                             {"llama-3-8b", 8192u}})
      for (StoragePrecision precision : {StoragePrecision::Fp32, StoragePrecision::Bf16, StoragePrecision::Fp16}) {
        models.add(file(name), seq, precision, 0, "none");
        models.add(file(name), seq, precision, 3, "layer");
      }
  }
  checkCode(models);
}

TEST(GeneratedCode, AttentionOfAllHeads) {
  MLIRContext context;
  ModelKernels models;
  auto add = [&](int64_t dim, Type type, bool causal, bool windowed, bool softcapped = false) {
    const AttentionForm form{dim, causal, windowed, type, /*packed=*/false, softcapped};
    for (bool grad : {false, true})
      for (const KernelDescription &kernel : models.module.addGpuAttention(form, grad))
        models.kernels.try_emplace(kernel.name,
                                   GatedKernel{kernel.form,
                                               "no model",
                                               {},
                                               false,
                                               false,
                                               false,
                                               byMatrices(type, dim) && !StringRef(kernel.name).contains("delta")});
  };
  Type f32 = Float32Type::get(&context), bf16 = BFloat16Type::get(&context);
  if (!wantsAll()) {
    add(16, f32, /*causal=*/false, /*windowed=*/false);
    add(256, bf16, /*causal=*/true, /*windowed=*/false);
    add(256, bf16, /*causal=*/true, /*windowed=*/true, /*softcapped=*/true);
    add(512, f32, /*causal=*/true, /*windowed=*/false);
    checkCode(models, {"sm_90a"});
    return;
  }
  for (int64_t dim : {7, 8, 12, 16, 24, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256, 320, 512})
    for (Type type : {f32, bf16})
      for (auto [causal, windowed] : {std::pair(true, false), {true, true}, {false, false}})
        add(dim, type, causal, windowed);
  checkCode(models);
}
