"""*When it hangs, when it is wrong*: …"""
