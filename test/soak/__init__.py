"""Campaigns that look for rare failures with random seeds. `python -m test.soak --help` lists them."""
