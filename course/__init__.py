"""Problem sets for the chapters: a draw of parameters for each student, answers by the library, known mistakes named.

A problem is a function of a :class:`~course.problems.Draw`; it holds no number that a student could look up in the
book. ``python -m course`` writes what students receive, and marks what they send back: see ``course/README.md``.
"""
