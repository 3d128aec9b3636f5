"""*Four warps multiply*: …"""
