"""*Past the vendor*: …"""
