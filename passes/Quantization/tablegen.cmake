ztc_tablegen_file(passes/Quantization/Passes.td Passes.h.inc -gen-pass-decls -name Quantization)
