"""Experiments of Feyisetan and Kasiviswanathan 2021 on words, and every mechanism of private vectors on sentences."""
