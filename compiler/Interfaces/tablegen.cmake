foreach(interface Differentiable Decomposable Cost LibraryCall Optimizer Precision StorageAlias)
  ztc_tablegen_file(compiler/Interfaces/${interface}.td ${interface}.h.inc -gen-op-interface-decls)
  ztc_tablegen_file(compiler/Interfaces/${interface}.td ${interface}.cpp.inc -gen-op-interface-defs)
endforeach()
