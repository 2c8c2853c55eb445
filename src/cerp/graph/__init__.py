"""What the training graph knows without any trained value: filter, item neighbours, mixtures.

- `cerp.graph.edges`: the training graph from both sides;
- `cerp.graph.arithmetic`: powers and logarithms defined to the bit;
- `cerp.graph.filter`: the three-exponent graph filter;
- `cerp.graph.search`: its exponents, by validation;
- `cerp.graph.low_pass`: a term of leading singular vectors beside it;
- `cerp.graph.ease`: linear item-item models, dense and on a sparse support;
- `cerp.graph.neighbours`: sparse item-item models, pruned and rounded;
- `cerp.graph.build_neighbours`: as many of their weights as a limit has room for;
- `cerp.graph.choose_neighbours`: where these come from, by validation;
- `cerp.graph.mixture`: vectors and filter together.
"""
