"""What is kept and for how long, what frees bytes, and whether all is sound."""
