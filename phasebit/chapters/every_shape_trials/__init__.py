"""*Past the vendor: the trials*: its checks; kernels, plans and tables are *Past the vendor*'s."""
