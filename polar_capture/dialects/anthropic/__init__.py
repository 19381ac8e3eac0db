"""Anthropic Messages (https://docs.anthropic.com/en/api/messages), with the betas that harnesses use."""

from polar_capture.dialects.anthropic.dialect import Anthropic

__all__ = ["Anthropic"]
