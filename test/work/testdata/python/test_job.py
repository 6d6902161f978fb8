import unittest

import job


class Test(unittest.TestCase):
    def test_square(self):
        self.assertEqual(job.square(4), 16)

    def test_threads(self):
        self.assertEqual(job.threads(), (328350, 328350))
