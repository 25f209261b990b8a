#!/usr/bin/env bash
# Where torchrun starts everything: it needs --no-python. Its agent holds MASTER_PORT, ztc-run's rank 0 listens at the port after that.
exec torchrun --no-python --nnodes 1 --nproc-per-node 2 ztc-run plan.bin --device=cpu --data tokens.bin --steps 2000 --save checkpoints
