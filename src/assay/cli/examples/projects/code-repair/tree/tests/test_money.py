import unittest

from money import split_bill


class Money(unittest.TestCase):
    def test_an_even_bill(self):
        self.assertEqual(split_bill(900, 3), [300, 300, 300])

    def test_no_cent_is_lost(self):
        self.assertEqual(split_bill(1000, 3), [334, 333, 333])
