"""Agents that polar_capture can install and launch; each preset is one file."""
