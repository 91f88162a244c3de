"""Checks the simulation against real processes: plays the simulation's workloads, faults and checks on nodes that are
operating-system processes with files, and prints the shares of outcomes beside those of the simulation.

```
campaign.py        plays every scenario simulated and with real processes, prints the table
play.py            plays one run with real processes and checks it
world.py           the cluster of processes, and time as it passes
node.py            the test's handle of one node, over several process lives
node_server.py     the program that runs in a node's process
processes.py       starts, signals and awaits that process
channel.py         the control channel between the two
links.py           proxies between nodes, which can be cut
injector.py        lets faults happen
administrator.py   restarts nodes and reconfigures appliers that have stopped
```

Elections have a campaign of their own, with members that may be Tarantool and clients that use the binary protocol:

```
election_run.py      plays one run and checks it
election_faults.py   draws the faults of a run and lets them happen
member.py, .lua      a member: the handle of its process, and the program in it
orders.py            clients, and the outcomes that were reported to them
```
"""
