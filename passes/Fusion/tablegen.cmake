ztc_tablegen_file(passes/Fusion/Passes.td Passes.h.inc -gen-pass-decls -name Fusion)
