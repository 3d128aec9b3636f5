"""*Attention again*: …"""
