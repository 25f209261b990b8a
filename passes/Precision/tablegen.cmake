ztc_tablegen_file(passes/Precision/Passes.td Passes.h.inc -gen-pass-decls -name Precision)
