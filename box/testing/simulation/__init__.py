"""A replica set in one thread, with simulated time, network and disks: every run can be played again by its seed."""
