ztc_tablegen_file(passes/Schedule/Passes.td Passes.h.inc -gen-pass-decls -name Schedule)
