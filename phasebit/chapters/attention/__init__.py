"""*Attention*: …"""
