"""*Eight bits*: …"""
