"""Google generateContent (https://ai.google.dev/api/generate-content), with and without Code Assist's wrapper."""

from polar_capture.dialects.google.dialect import Google

__all__ = ["Google"]
