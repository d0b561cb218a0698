"""Integrations with other tools, each with an extra of its name or requirements of its own."""
