"""Tasks → groups of sessions → rewards. `polar_capture.rollouts` is the way in for trainers."""
