import unittest

from texts import shorten


class Texts(unittest.TestCase):
    def test_a_long_text_is_cut(self):
        self.assertEqual(shorten("abcdef", 3), "abc…")

    def test_a_short_text_stays(self):
        self.assertEqual(shorten("abc", 3), "abc")
