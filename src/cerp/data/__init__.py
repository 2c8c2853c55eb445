"""From a file or table to checked interactions and a leak-proof split. No torch here."""
