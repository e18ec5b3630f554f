import unittest

from slugs import slug


class Slugs(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slug("Hello world"), "hello-world")

    def test_punctuation_leaves_no_trace(self):
        self.assertEqual(slug("Hello, world!"), "hello-world")
