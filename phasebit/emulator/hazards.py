"""stub"""
from dataclasses import dataclass
@dataclass
class Hazard:
    kind: str
class Checker:
    def __init__(self, machine, hazards): pass
