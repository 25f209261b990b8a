ztc_tablegen_file(compiler/Dialect/Graph/GraphOps.td GraphDialect.h.inc -gen-dialect-decls -dialect=graph)
ztc_tablegen_file(compiler/Dialect/Graph/GraphOps.td GraphDialect.cpp.inc -gen-dialect-defs -dialect=graph)
ztc_tablegen_file(compiler/Dialect/Graph/GraphOps.td GraphOps.h.inc -gen-op-decls)
ztc_tablegen_file(compiler/Dialect/Graph/GraphOps.td GraphOps.cpp.inc -gen-op-defs)
