ztc_tablegen_file(passes/Patterns/Passes.td Passes.h.inc -gen-pass-decls -name Patterns)
