#!/usr/bin/env bash
# Open MPI's variables hold no address: over several hosts the meeting point must be given.
exec mpirun -np 8 --host node0:4,node1:4 ztc-run plan.bin --device=cpu --rendezvous node0:29400 --data tokens.bin --steps 2000 --save checkpoints
