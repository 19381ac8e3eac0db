"""Exact continuation: the next turn is sampled from the very tokens of the turns before it.

The prompt of a call that follows a sampled turn is that turn's prompt ids + its completion ids + the tail: the ids that
the served model's own template puts between an answer and the next generation. What the policy saw is then what it is
trained on.

reasons.py is the closed list of why a call starts from a plain render instead; asked.py and history.py tell whether a
conversation goes on from a recorded call without an edit; tails.py derives the tail from renders of the engine; all
four are pure, and so is thoughts.py, which tells what closes a thought that was cut. contexts.py keeps the tokens of
recent calls, planner.py asks the engine, plans.py samples while the last renders prove a plan. No tokenizer anywhere.
"""
