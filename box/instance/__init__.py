"""An instance put together: its parts, their life cycle, and the configuration."""
