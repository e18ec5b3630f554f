"""The YAML shelf: profiles, policies, rubrics, and the lock that freezes what is published."""
