// RUN: not ztc-opt %s --ztc-choose-stage=zero=4 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not ztc-opt %s --ztc-choose-stage=zero=1 --ztc-choose-stage=zero=3 2>&1 | FileCheck %s --check-prefix=TWICE

// STAGE: error: there is no ZeRO stage 4, only 0 to 3
// TWICE: error: has a mesh already: the stage is chosen once
module {
}
