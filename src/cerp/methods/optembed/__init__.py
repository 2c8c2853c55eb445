"""OptEmbed."""
