"""PTX as text and as data: what is known of a kernel before there is a machine to run it."""
