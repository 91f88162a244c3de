"""The admin console's text protocol: connections, servers, and answers as tables."""
