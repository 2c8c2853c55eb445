"""How many values, and in which precision, a limit in bytes has room for."""
