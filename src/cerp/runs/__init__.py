"""A whole run: plan, search, train, judge, ship."""
