ztc_tablegen_file(compiler/Conversion/Passes.td Passes.h.inc -gen-pass-decls -name Conversion)
