ztc_tablegen_file(passes/Kernels/Passes.td Passes.h.inc -gen-pass-decls -name Kernels)
