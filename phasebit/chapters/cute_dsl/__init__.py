"""*The same in CuTe DSL*: …"""
