"""*Other forms of the product*: two operands more, a B that stays, an A of which half is zero."""
