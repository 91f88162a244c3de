"""A replica set in one thread, with simulated time, network and disks: a seed reproduces every run."""
