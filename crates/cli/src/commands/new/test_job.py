"""Tests of this job: python3 test_job.py (CANOE names the program if it is not on the PATH)."""
import os
import subprocess
import unittest

CANOE = os.environ.get('CANOE', 'canoe')
HERE = os.path.dirname(os.path.abspath(__file__))


class TheJob(unittest.TestCase):
    def test_every_line_of_the_data_has_a_label_and_two_numbers(self):
        for name in ('train', 'test'):
            with open(os.path.join(HERE, 'data', name + '.txt')) as lines:
                for number, line in enumerate(lines, 1):
                    label, x, y = line.split()
                    self.assertIn(label, ('0', '1'), '%s.txt, line %d' % (name, number))
                    float(x), float(y)

    def test_the_configuration_can_be_trained(self):
        subprocess.run([CANOE, 'config', 'check', 'model/trainer_config.py'], cwd=HERE, check=True)


if __name__ == '__main__':
    unittest.main()
