"""The simulation checked against reality: the same workloads, faults and checks on nodes that are processes of the
operating system, with files, and the shares of outcomes beside those of the simulation.

```
campaign.py       both worlds, the table
play.py           one run, its checks
world.py          the cluster of processes
node.py           one node, as workloads and faults see it: life after life
servant.py        what runs in its process          processes.py   the process       channel.py   the way there
roads.py          proxies between nodes             injector.py    faults            administrator.py
```

Elections have a campaign of their own, with members that may be Tarantool and clients that use the binary protocol:

```
election_run.py   one run, its checks               election_faults.py   the faults, and who lets them happen
member.py, .lua   a member: process and program     orders.py            clients, and what they were told
```
"""
