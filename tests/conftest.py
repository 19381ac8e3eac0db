"""For all tests: a loaded machine is no failure of a property, and Ctrl-C reaches what a test starts."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("polar", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("polar")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background lets them ignore it, and programs started from here would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
