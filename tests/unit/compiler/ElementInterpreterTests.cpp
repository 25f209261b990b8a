// The interpreter on chosen elements gives what it gives on whole tensors; memory of any size; cubins that are none.
#include "KernelHarness.h"
#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Codegen/OutsideKernels.h"
#include "compiler/Verification/ElementInterpreter.h"
#include "compiler/Verification/PatternMemory.h"
#include "llvm/BinaryFormat/ELF.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

/// Holds chosen elements of a group's results against all of them, to the bit.
void expectLikeWhole(const std::string &text) {
  Group group(text);
  graph::FusionOp fusion = group.fusion();
  Block &block = codegen::bodyOf(fusion);
  std::vector<Tensor> arguments;
  for (auto [number, type] : llvm::enumerate(fusion->getOperandTypes()))
    arguments.push_back(randomOperand(cast<RankedTensorType>(type), unsigned(number) + 1));
  InterpreterOptions options;
  options.precision = Precision::F32;
  auto whole = Interpreter(options).run(block, arguments);
  ASSERT_TRUE(succeeded(whole));
  verification::ElementSource source;
  source.operand = [&](unsigned operand, llvm::ArrayRef<int64_t> positions) {
    const Tensor &from = arguments[operand];
    Tensor some({int64_t(positions.size())}, from.elementType);
    for (size_t i = 0; i < positions.size(); ++i) {
      if (from.isReal())
        some.reals[i] = from.reals[size_t(positions[i])];
      else
        some.integers[i] = from.integers[size_t(positions[i])];
    }
    return some;
  };
  std::mt19937 generator(3);
  for (const int64_t share : {1, 3, 17}) { // all elements, and some
    verification::WantedElements wanted;
    for (auto [value, tensor] : llvm::zip(codegen::resultsOf(fusion), *whole))
      for (int64_t position = 0; position < tensor.count(); ++position)
        if (int64_t(generator() % 17) % share == 0)
          wanted[value].push_back(position);
    std::string why;
    auto found = verification::interpretElements(block, wanted, source, why);
    ASSERT_TRUE(succeeded(found)) << why;
    for (auto [value, tensor] : llvm::zip(codegen::resultsOf(fusion), *whole)) {
      const verification::ChosenElements &some = (*found)[value];
      for (size_t i = 0; i < some.positions.size(); ++i) {
        const auto at = size_t(some.positions[i]);
        if (tensor.isReal())
          EXPECT_EQ(some.values.reals[i], tensor.reals[at]) << text << " element " << at;
        else
          EXPECT_EQ(some.values.integers[i], tensor.integers[at]) << text << " element " << at;
      }
    }
  }
}

TEST(ElementInterpreter, MovesData) {
  expectLikeWhole(
      R"(func.func @f(%x: tensor<4x6x8xf32>, %y: tensor<8xf32>) -> (tensor<6x32xf32>, tensor<4x5x7xf32>, tensor<4x12x8xf32>) {
    %b = graph.broadcast %y : tensor<8xf32> -> tensor<4x6x8xf32>
    %s = graph.add %x, %b : tensor<4x6x8xf32>
    %t = graph.transpose %s, [1, 0, 2] : tensor<4x6x8xf32> -> tensor<6x4x8xf32>
    %r = graph.reshape %t : tensor<6x4x8xf32> -> tensor<6x32xf32>
    %c = graph.slice %s, [0, 1, 1] : tensor<4x6x8xf32> -> tensor<4x5x7xf32>
    %p = graph.pad %c, [0, 1, 0] : tensor<4x5x7xf32> -> tensor<4x6x8xf32>
    %j = graph.concat %x, %p axis 1 : tensor<4x6x8xf32>, tensor<4x6x8xf32> -> tensor<4x12x8xf32>
    return %r, %c, %j : tensor<6x32xf32>, tensor<4x5x7xf32>, tensor<4x12x8xf32>
  })");
}

TEST(ElementInterpreter, EncodesWholeBlocksOfStates) {
  // Two blocks of 256 and a short one; the second state keeps what it was.
  expectLikeWhole(
      R"(func.func @f(%x: tensor<600xf32>, %old: tensor<600x!graph.block8<signed>>, %v: tensor<600x!graph.block8<unsigned>>)
      -> (tensor<600x!graph.block8<signed>>, tensor<600x!graph.block8<unsigned>>, tensor<600xf32>) {
    %yes = graph.constant dense<true> : tensor<600xi1>
    %no = graph.constant dense<false> : tensor<600xi1>
    %d = graph.decode_blocks %old : tensor<600x!graph.block8<signed>> -> tensor<600xf32>
    %s = graph.add %x, %d : tensor<600xf32>
    %y = graph.encode_blocks %s over %old if %yes : tensor<600xf32>, tensor<600xi1> -> tensor<600x!graph.block8<signed>>
    %z = graph.encode_blocks %s over %v if %no : tensor<600xf32>, tensor<600xi1> -> tensor<600x!graph.block8<unsigned>>
    return %y, %z, %s : tensor<600x!graph.block8<signed>>, tensor<600x!graph.block8<unsigned>>, tensor<600xf32>
  })");
}

TEST(ElementInterpreter, ReducesAndNormalizes) {
  expectLikeWhole(
      R"(func.func @f(%x: tensor<12x64xbf16>, %w: tensor<64xbf16>) -> (tensor<12x64xbf16>, tensor<12x1xbf16>, tensor<1x64xbf16>) {
    %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<12x64xbf16>, tensor<64xbf16>
    %m = graph.reduce_max %y, [1] : tensor<12x64xbf16> -> tensor<12x1xbf16>
    %s = graph.reduce_sum %y, [0] : tensor<12x64xbf16> -> tensor<1x64xbf16>
    return %y, %m, %s : tensor<12x64xbf16>, tensor<12x1xbf16>, tensor<1x64xbf16>
  })");
}

TEST(ElementInterpreter, SelectsByIndex) {
  expectLikeWhole(R"(func.func @f(%x: tensor<5x16xf32>) -> (tensor<5x16xf32>, tensor<5x16xi1>) {
    %i = graph.iota 1 : tensor<5x16xi32>
    %l = graph.constant dense<7> : tensor<5x16xi32>
    %z = graph.constant dense<0.5> : tensor<5x16xf32>
    %m = graph.compare lt, %i, %l : tensor<5x16xi32> -> tensor<5x16xi1>
    %y = graph.mul %x, %x : tensor<5x16xf32>
    %s = graph.select %m, %y, %z : tensor<5x16xi1>, tensor<5x16xf32>
    return %s, %m : tensor<5x16xf32>, tensor<5x16xi1>
  })");
}

TEST(PatternMemory, HoldsStatesInWholeRecords) {
  mlir::MLIRContext &context = kernelContext();
  const Type type = graph::Block8Type::get(&context, /*isSigned=*/true);
  EXPECT_EQ(verification::storedBytes(type, 256), 260u);
  EXPECT_EQ(verification::storedBytes(type, 257), 520u);
  constexpr int64_t elements = int64_t(1) << 31;
  auto made = verification::PatternMemory::random(type, elements, 3);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  // Far past the pattern's end too a block's largest number is its magnitude.
  for (const int64_t block : {int64_t(0), int64_t(5119), int64_t(5120), elements / 256 - 1}) {
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < 256; ++i)
      positions.push_back(block * 256 + i);
    const Tensor found = made->elements(type, positions);
    const double largest = std::abs(*std::max_element(found.reals.begin(), found.reals.end(),
                                                      [](double x, double y) { return std::abs(x) < std::abs(y); }));
    EXPECT_GT(largest, 1.5) << block;
    EXPECT_LE(largest, 2) << block;
  }
}

TEST(PatternMemory, KeepsWhatIsWritten) {
  const Type type = mlir::BFloat16Type::get(&kernelContext());
  auto made = verification::PatternMemory::random(type, 1000, 1);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  const Tensor before = made->elements(type, {499, 503});
  Tensor values({3}, type);
  values.reals = {1, -0.5, 96};
  made->write(500, values);
  EXPECT_EQ(made->elements(type, {500, 501, 502}).reals, values.reals);
  EXPECT_EQ(made->elements(type, {499, 503}).reals, before.reals);
}

TEST(PatternMemory, HoldsGigabytesOfWhichFewAreThere) {
  const Type type = Float32Type::get(&kernelContext());
  const int64_t elements = int64_t(3) << 30; // 12 GiB
  auto made = verification::PatternMemory::random(type, elements, 2);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  EXPECT_EQ(made->size(), uint64_t(elements) * 4);
  const std::vector<int64_t> at{0, 1, 4096, elements / 2, elements - 1};
  const Tensor before = made->elements(type, at);
  for (double x : before.reals)
    EXPECT_TRUE(x >= -2 && x <= 2) << x;
  // Rows of 4096 elements differ from their neighbours.
  EXPECT_NE(std::memcmp(made->data(), made->data() + 4096 * 4, 4096 * 4), 0);
  reinterpret_cast<float *>(made->data())[elements - 1] = 77;
  EXPECT_EQ(made->elements(type, {elements - 1}).reals.front(), 77);
  EXPECT_EQ(made->elements(type, {elements / 2}).reals.front(), before.reals[3]);
  auto other = verification::PatternMemory::random(type, elements, 2);
  ASSERT_TRUE(bool(other)) << llvm::toString(other.takeError());
  EXPECT_EQ(other->elements(type, {elements - 1}).reals.front(), before.reals[4]) << "a write reached the pattern";
  auto magnitudes = verification::PatternMemory::random(type, elements, 2, /*magnitudes=*/true);
  ASSERT_TRUE(bool(magnitudes)) << llvm::toString(magnitudes.takeError());
  for (auto [magnitude, x] : llvm::zip(magnitudes->elements(type, at).reals, before.reals))
    EXPECT_EQ(magnitude, std::abs(x));
}

/// A cubin's ELF with one entry `add`: header, symbols, names, sections; no machine code.
std::string cubinOf(unsigned processor, unsigned char version = llvm::ELF::ELFABIVERSION_CUDA_V2) {
  using namespace llvm::ELF;
  const std::string names = std::string("\0add\0", 5);
  Elf64_Ehdr header{};
  Elf64_Sym symbols[2]{};
  Elf64_Shdr sections[3]{};
  std::memcpy(header.e_ident, ElfMagic, 4);
  header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB, header.e_ident[EI_VERSION] = 1;
  header.e_ident[EI_ABIVERSION] = version;
  header.e_type = ET_EXEC, header.e_machine = EM_CUDA, header.e_version = 1;
  header.e_flags = version >= ELFABIVERSION_CUDA_V2 ? processor << EF_CUDA_SM_OFFSET : processor;
  header.e_ehsize = sizeof header, header.e_shentsize = sizeof(Elf64_Shdr), header.e_shnum = 3;
  symbols[1].st_name = 1, symbols[1].st_info = (STB_GLOBAL << 4) | STT_FUNC, symbols[1].st_other = 0x10;
  symbols[1].st_shndx = 1;
  sections[1].sh_type = SHT_SYMTAB, sections[1].sh_offset = sizeof header, sections[1].sh_size = sizeof symbols;
  sections[1].sh_link = 2, sections[1].sh_entsize = sizeof(Elf64_Sym), sections[1].sh_info = 1;
  sections[2].sh_type = SHT_STRTAB, sections[2].sh_offset = sizeof header + sizeof symbols;
  sections[2].sh_size = names.size();
  header.e_shoff = sizeof header + sizeof symbols + 8;
  auto bytes = [](const auto &object) { return std::string(reinterpret_cast<const char *>(&object), sizeof object); };
  return bytes(header) + bytes(symbols) + names + std::string(8 - names.size(), '\0') + bytes(sections);
}

std::string refusal(const std::string &bytes, const std::string &architecture, const std::string &symbol) {
  llvm::Error error = codegen::checkCubin(bytes, architecture, {symbol});
  return error ? llvm::toString(std::move(error)) : "";
}

TEST(OutsideKernels, TakesACubinForItsProcessorAlone) {
  EXPECT_EQ(refusal(cubinOf(90), "sm_90a", "add"), "");
  EXPECT_EQ(refusal(cubinOf(80, llvm::ELF::ELFABIVERSION_CUDA_V1), "sm_80", "add"), "");
  EXPECT_EQ(refusal(cubinOf(80), "sm_90a", "add"), "a cubin from outside is for sm_80, it was given for sm_90a");
  EXPECT_EQ(refusal(cubinOf(90), "sm_90a", "sum"), "a cubin from outside for sm_90a has no entry sum");
  EXPECT_NE(refusal(cubinOf(90), "hopper", "add").find("such as sm_90a"), std::string::npos);
  EXPECT_NE(refusal("bytes", "sm_90a", "add").find("no ELF header"), std::string::npos);
  std::string other = cubinOf(90);
  other[18] = 62, other[19] = 0; // e_machine: x86-64
  EXPECT_NE(refusal(other, "sm_90a", "add").find("ELF for machine 62"), std::string::npos);
  std::string relocatable = cubinOf(90);
  relocatable[16] = llvm::ELF::ET_REL;
  EXPECT_NE(refusal(relocatable, "sm_90a", "add").find("not linked"), std::string::npos);
}

TEST(OutsideKernels, ReadsAnyBytesAsCubin) {
  const std::string good = cubinOf(90);
  std::mt19937 generator(5);
  for (unsigned i = 0; i < 200000; ++i) {
    std::string bytes = good.substr(0, i % 8 ? good.size() : generator() % good.size());
    for (unsigned change = 0; change < 1 + i % 4 && !bytes.empty(); ++change) {
      const size_t at = generator() % bytes.size();
      bytes[at] = i % 3 ? char(generator()) : char(0xff);
    }
    (void)refusal(bytes, "sm_90a", "add"); // taken or refused: it ends
  }
}

} // namespace
