"""Puts the generator of programs and what runs them within reach of the tests here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
