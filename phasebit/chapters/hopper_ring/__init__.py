"""*The ring at full width*: …"""
