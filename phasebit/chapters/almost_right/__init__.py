"""*Ways to be almost right*: …"""
