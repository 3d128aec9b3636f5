"""What watches a launch: bounds, races, proxies, tensor memory, memory traffic."""
