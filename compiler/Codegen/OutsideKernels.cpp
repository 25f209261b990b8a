#include "compiler/Codegen/OutsideKernels.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace ztc::codegen {
namespace {

/// Of a symbol's st_other: a kernel that is launched (CUDA binary utilities, `cuobjdump -elf`: STO_ENTRY).
constexpr unsigned kCudaEntry = 0x10;

using CubinFile = object::ELFFile<object::ELF64LE>;

Error notCubin(const Twine &why) {
  return createStringError("bytes from outside are not a cubin: " + why);
}

/// The number of the processor, 90 of sm_90a. Since version 8 of the ABI it stands in another byte.
unsigned processorOf(const CubinFile::Elf_Ehdr &header) {
  const unsigned flags = header.e_flags;
  return header.e_ident[ELF::EI_ABIVERSION] >= ELF::ELFABIVERSION_CUDA_V2
             ? (flags & ELF::EF_CUDA_SM_MASK) >> ELF::EF_CUDA_SM_OFFSET
             : flags & ELF::EF_CUDA_SM;
}

/// The names of the functions that can be launched.
Expected<StringSet<>> entriesOf(const CubinFile &file) {
  StringSet<> entries;
  auto sections = file.sections();
  if (!sections)
    return sections.takeError();
  for (const CubinFile::Elf_Shdr &section : *sections) {
    if (section.sh_type != ELF::SHT_SYMTAB)
      continue;
    auto symbols = file.symbols(&section);
    if (!symbols)
      return symbols.takeError();
    auto names = file.getStringTableForSymtab(section, *sections);
    if (!names)
      return names.takeError();
    for (const CubinFile::Elf_Sym &symbol : *symbols) {
      if (symbol.getType() != ELF::STT_FUNC || !(symbol.st_other & kCudaEntry) || symbol.st_shndx == ELF::SHN_UNDEF)
        continue;
      Expected<StringRef> name = symbol.getName(*names);
      if (!name)
        return name.takeError();
      entries.insert(*name);
    }
  }
  return entries;
}

} // namespace

Error checkCubin(StringRef bytes, StringRef architecture, ArrayRef<std::string> symbols) {
  unsigned wanted = 0;
  StringRef number = architecture;
  if (!number.consume_front("sm_") || number.consumeInteger(10, wanted))
    return createStringError("a cubin from outside has an architecture such as sm_90a, not '" + architecture + "'");
  if (bytes.size() < sizeof(CubinFile::Elf_Ehdr) || !bytes.starts_with(StringRef(ELF::ElfMagic, 4)))
    return notCubin("they have no ELF header");
  Expected<CubinFile> file = CubinFile::create(bytes);
  if (!file)
    return notCubin(toString(file.takeError()));
  const CubinFile::Elf_Ehdr &header = file->getHeader();
  if (header.e_ident[ELF::EI_CLASS] != ELF::ELFCLASS64 || header.e_ident[ELF::EI_DATA] != ELF::ELFDATA2LSB ||
      header.e_machine != ELF::EM_CUDA)
    return notCubin(
        formatv("they are ELF for machine {0}, a cubin's is {1}", unsigned(header.e_machine), unsigned(ELF::EM_CUDA))
            .str());
  if (header.e_type != ELF::ET_EXEC)
    return notCubin("it is not linked (nvlink, or ptxas without -c)");
  if (const unsigned is = processorOf(header); is != wanted)
    return createStringError(formatv("a cubin from outside is for sm_{0}, it was given for {1}", is, architecture));
  Expected<StringSet<>> entries = entriesOf(*file);
  if (!entries)
    return notCubin(toString(entries.takeError()));
  for (const std::string &symbol : symbols)
    if (!entries->contains(symbol))
      return createStringError("a cubin from outside for " + architecture + " has no entry " + symbol);
  return Error::success();
}

} // namespace ztc::codegen
