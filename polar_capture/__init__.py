"""polar_capture: the exact tokens a policy sampled, behind any unmodified coding agent."""

__version__ = "0.1.0"
