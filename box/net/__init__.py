"""Addresses, sockets and connections to other instances."""
