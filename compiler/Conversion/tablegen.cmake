ztc_tablegen_file(compiler/Conversion/Passes.td Passes.h.inc -gen-pass-decls -name Conversion)
ztc_tablegen_file(compiler/Conversion/StepSource.td StepSource.h.inc -gen-op-interface-decls)
ztc_tablegen_file(compiler/Conversion/StepSource.td StepSource.cpp.inc -gen-op-interface-defs)
