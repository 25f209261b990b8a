ztc_tablegen_file(passes/Sharding/Passes.td Passes.h.inc -gen-pass-decls -name Sharding)
