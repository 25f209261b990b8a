ztc_tablegen_file(passes/Recompute/Passes.td Passes.h.inc -gen-pass-decls -name Recompute)
