#include "MachineCodeGates.h"
#include "MachineCode.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using llvm::StringRef;

namespace ztc {

namespace {

/// What a family of kernels is held to: bytes that move 16 at a time, of all that places in the code load, store, and
/// exchange with shared memory. The first rule whose beginning of a kernel's name and whose form fit counts.
struct Rule {
  const char *name, *form;
  double loaded, stored, shared;
  bool barriersInBranches; ///< barriers stand where a branch leads past them, which is all of the block's or none's
  const char *reason;      ///< why not everything is
};
const Rule kRules[] = {
    {"gpu_attention_delta", "service", 0, 0, 1, false, "four elements of a row a thread"},
    {"gpu_attention", "service", 0, 0, 0.8, true,
     "rows' statistics are a number each, a fragment's neighbours two; all threads of a block have the same columns to "
     "do"},
    {"gpu_cross_entropy", "service", 0.6, 0, 0, true,
     "the target and its logit are a number each, as are a warp's sums; a row that does not count is the block's"},
    {"gpu_scatter_add", "service", 0.9, 0.9, 0, true, "indices, and warps' words; the block's index may have no work"},
    {"gpu_gather", "service", 0.9, 0.9, 1, false, "indices"},
    {"gpu_loss_sum", "service", 0, 0, 0, true, "a number a row; the rows' count is the call's"},
    {"gpu_narrow", "service", 1, 1, 1, false, ""},
    {"gpu_route", "service", 0, 0, 0, false, "a number a choice, and counters"},
    {"gpu_combine", "service", 0.7, 0.6, 1, false, "places; one of them may be noted"},
    {"gpu_grouped_gemm_outer", "service", 0.8, 1, 0.9, true, "as the others"},
    {"gpu_grouped_gemm", "service", 0.8, 1, 0.9, true, "where groups begin; a block may have no tile"},
    {"sum_squares_fold", "fold", 0, 0, 0, true, "a number a block of the range, as long as that may be"},
    {"", "scalar", 0, 0, 1, false, "numbers"},
    {"", "flat", 0.5, 0.45, 1, false, "the range may end anywhere in the last block, whose elements come one by one"},
    {"", "flat_reduce", 0.5, 0, 0, false, "as flat; a sum a block, a number a warp"},
    {"", "row", 0.9, 1, 0, false, "numbers of a row or a table; a sum is a number a warp"},
    {"", "row_column_reduce", 0.9, 1, 0.7, false, "as row; teams join their columns' sums 16 bytes at a time"},
    {"", "column_reduce", 0.9, 1, 0.7, false, "as row_column_reduce"},
    {"", "fold", 0.9, 1, 1, false, "numbers of a row"},
};

/// Kinds of instructions, by name; what none has is "other".
struct InstructionClass {
  const char *name;
  std::vector<std::string> ops;
};
const InstructionClass kClasses[] = {
    {"matrix", {"HMMA"}},
    {"float", {"FFMA", "FMUL", "FADD", "FFMA2", "FMUL2", "FADD2"}},
    {"select", {"FSETP", "FSEL", "FMNMX", "FMNMX3", "FCHK"}},
    {"special", {"MUFU"}},
    {"double", {"DFMA", "DMUL", "DADD", "DSETP"}},
    {"convert", {"F2F", "F2FP", "F2I", "I2F", "I2FP", "FRND"}},
    {"pack", {"PRMT", "SGXT"}},
    {"integer",
     {"IADD3", "IADD", "VIADD", "IMAD", "LEA", "LOP3", "SHF", "ISETP", "SEL", "IMNMX", "VIMNMX", "PLOP3", "P2R",
      "R2P"}},
    {"uniform", {"UIADD3", "UIMAD", "ULEA", "ULOP3", "USHF", "UISETP", "USEL", "UPLOP3"}},
    {"move", {"MOV", "CS2R", "HFMA2", "S2R", "S2UR", "LDC", "LDCU", "ULDC", "R2UR", "UMOV"}},
    {"global", {"LDG", "STG", "LDGSTS"}},
    {"shared", {"LDS", "STS", "LDSM"}},
    {"warp", {"SHFL", "BAR", "VOTE"}},
    {"control", {"BRA", "BSSY", "BSYNC", "CALL", "RET", "EXIT", "NOP", "WARPSYNC"}},
};

/// Instructions of a loop for each product of matrices, at most. Attention's: softmax and its gradient by
/// multiply-adds; grouped products' whose rows are whole: a quarter of a load of fragments, an eighth of a copy, and
/// their addresses.
constexpr size_t kMostPerProduct = 24, kMostPerGroupedProduct = 3;

/// Instructions that a kernel of 16-bit results may issue for an element: with an IEEE division and math.exp swiglu
/// took 41.5, its gradient 50, and were held up by that. Results are packed in pairs, `results` of them an element;
/// small rows have less to share addresses among (large ones: 27 and 35).
struct IssueLimit {
  const char *name;
  double results, most;
};
const IssueLimit kIssueLimits[] = {{"swiglu_grad", 2, 40}, {"swiglu", 1, 32}};

/// Bytes of all places that load (store), and of those that move 16 at once.
struct Width {
  uint64_t all = 0, wide = 0;
  double share() const { return all ? double(wide) / all : 1.0; }
};

Width widthOf(const MachineKernel &kernel, const std::vector<std::string> &names) {
  Width width;
  for (const MachineInstruction &i : kernel.instructions)
    if (llvm::is_contained(names, i.name())) {
      width.all += i.bytes();
      width.wide += i.bytes() >= 16 ? i.bytes() : 0;
    }
  return width;
}

void writeTable(llvm::raw_ostream &out, StringRef target, const std::map<std::string, MachineKernel> &kernels,
                const std::map<std::string, MachineCodeForm> &forms) {
  out << llvm::formatv("{0,-8} {1,-18} {2,-46} {3,6} {4,5}", target, "form", "kernel", "all", "loop");
  for (const InstructionClass &kind : kClasses)
    out << llvm::formatv("{0,8}", kind.name);
  out << "   other; bytes by 16: loaded, stored, shared\n";
  std::vector<std::pair<std::string, std::string>> order;
  for (const auto &[name, form] : forms)
    order.emplace_back(form.form, name);
  llvm::sort(order);
  for (const auto &[form, name] : order) {
    auto found = kernels.find(name);
    if (found == kernels.end())
      continue;
    const MachineKernel &kernel = found->second;
    MachineLoop loop = kernel.hottest();
    size_t known = 0;
    out << llvm::formatv("{0,-8} {1,-18} {2,-46} {3,6} {4,5}", target, form, name, kernel.instructions.size(),
                         loop.size());
    for (const InstructionClass &kind : kClasses) {
      size_t count = kernel.count(loop, kind.ops);
      known += count;
      out << llvm::formatv("{0,8}", count);
    }
    out << llvm::formatv("{0,8}; {1:P0} {2:P0} {3:P0}\n", loop.size() - known, widthOf(kernel, {"LDG"}).share(),
                         widthOf(kernel, {"STG"}).share(), widthOf(kernel, {"LDS", "STS", "LDSM"}).share());
  }
}
} // namespace

namespace {
void checkKernel(const std::string &name, const MachineCodeForm &form, const MachineKernel &kernel) {
  const Rule *rule = llvm::find_if(
      kRules, [&](const Rule &rule) { return form.form == rule.form && StringRef(name).starts_with(rule.name); });
  ASSERT_NE(rule, std::end(kRules)) << form.form;
  if (form.wideLoads)
    EXPECT_GE(widthOf(kernel, {"LDG", "LDGSTS"}).share(), rule->loaded);
  if (form.wideStores)
    EXPECT_GE(widthOf(kernel, {"STG"}).share(), rule->stored);
  if (form.wideLoads && form.wideStores)
    EXPECT_GE(widthOf(kernel, {"LDS", "STS", "LDSM"}).share(), rule->shared);

  for (const char *op : {"LDL", "STL", "RED", "ATOM", "ATOMG", "ATOMS"})
    EXPECT_EQ(kernel.count(kernel.all(), {op}), 0u) << op << ": local memory or an atomic";
  // Of what takes a call, only the rare cases of correctly rounded division and roots: no division of integers.
  for (const MachineInstruction &i : kernel.instructions)
    EXPECT_FALSE(i.name() == "CALL" && llvm::Regex("__cuda_sm[0-9]+_(div|rem)_[us]").match(i.operands)) << i.operands;
  for (MachineLoop loop : kernel.innerLoops())
    EXPECT_EQ(kernel.count(loop, {"I2F", "F2I"}), 0u) << "a division of integers in a loop";
  // A rounding that does not go through the packing instruction takes one that is issued every eighth turn.
  for (const MachineInstruction &i : kernel.instructions)
    EXPECT_FALSE(form.wideStores && i.name() == "F2F" && (i.has("BF16") || i.has("F16"))) << i.op << " " << i.operands;

  const size_t packed = kernel.count(kernel.hottest(), {"F2FP"});
  const auto *limit =
      llvm::find_if(kIssueLimits, [&](const IssueLimit &limit) { return StringRef(name).starts_with(limit.name); });
  if (packed && limit != std::end(kIssueLimits)) {
    EXPECT_EQ(kernel.count(kernel.all(), {"FCHK", "MUFU"}), 0u) << "a division that is right to the last bit";
    EXPECT_LE(double(kernel.hottest().size()) * limit->results / (2.0 * double(packed)), limit->most)
        << "instructions an element";
  }

  std::vector<size_t> barriers;
  for (auto [index, i] : llvm::enumerate(kernel.instructions))
    if (i.name() == "BAR") {
      EXPECT_EQ(i.predicate, "") << "a barrier that not all threads may come by";
      barriers.push_back(index);
    }
  if (!rule->barriersInBranches)
    for (auto [index, i] : llvm::enumerate(kernel.instructions))
      for (size_t barrier : barriers)
        EXPECT_FALSE(i.target > int64_t(barrier) && index < barrier && !i.predicate.empty())
            << "instruction " << index << " leads past the barrier at " << barrier;

  if (!form.byMatrices)
    return;
  const bool isGrouped = StringRef(name).starts_with("gpu_grouped_gemm");
  size_t inLoops = 0;
  for (MachineLoop loop : kernel.innerLoops()) {
    size_t products = kernel.count(loop, {"HMMA"});
    inLoops += products;
    if (!products)
      continue;
    EXPECT_EQ(kernel.count(loop, {"F2F", "MUFU", "DFMA", "DADD", "DMUL", "LDS"}), 0u);
    // Two scores, rounded as factors of the next product, are one conversion.
    EXPECT_LE(kernel.count(loop, {"F2FP"}), products / 2);
    // Padding between instructions, which is never issued, does not count.
    EXPECT_LE(loop.size() - kernel.count(loop, {"NOP"}),
              (isGrouped ? kMostPerGroupedProduct : kMostPerProduct) * products);
  }
  EXPECT_GT(inLoops, 0u);
  EXPECT_EQ(inLoops, kernel.count(kernel.all(), {"HMMA"})) << "products outside of loops";
}
} // namespace

bool checkMachineCode(const KernelImage &image, const std::map<std::string, MachineCodeForm> &forms) {
  std::string nvdisasm = findNvdisasm(), error;
  if (nvdisasm.empty())
    return false;
  std::map<std::string, MachineKernel> kernels = disassemble(nvdisasm, image.bytes, error);
  EXPECT_EQ(error, "");
  if (const char *path = std::getenv("ZTC_MACHINE_CODE_TABLE")) {
    std::error_code failed;
    llvm::raw_fd_ostream out(path, failed, llvm::sys::fs::OF_Append);
    writeTable(out, image.target, kernels, forms);
  }
  for (const auto &[name, form] : forms) {
    SCOPED_TRACE(name + " on " + image.target);
    auto kernel = kernels.find(name);
    EXPECT_NE(kernel, kernels.end());
    if (kernel != kernels.end())
      checkKernel(name, form, kernel->second);
  }
  return true;
}

} // namespace ztc
