"""Statistics: functions from numbers to numbers, without records and without randomness that isn't
seeded.
"""
