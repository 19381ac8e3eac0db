"""For all tests: a loaded machine is no failure of a property."""

from hypothesis import HealthCheck, settings

settings.register_profile("polar", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("polar")
