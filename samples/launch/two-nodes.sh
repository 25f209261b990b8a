#!/usr/bin/env bash
# The same command on every node, with the node's number; node 0's address is where the ranks meet.
#   node0$ samples/launch/two-nodes.sh 0 PLAN DATA 10.0.0.1:29400        node1$ samples/launch/two-nodes.sh 1 PLAN DATA 10.0.0.1:29400
set -euo pipefail
node=$1 plan=$2 data=$3 meeting=$4
exec ztc-run "$plan" --device=cpu --ranks 4 --nodes 2 --node-rank "$node" --rendezvous "$meeting" --data "$data" --steps 2000 --save checkpoints --save-every 100
