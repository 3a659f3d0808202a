"""Puts the rig of the hostile conditions and the programs to be killed within reach of the tests here."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hostile" / "conditions")]
