// The best of many scores.

/** Codes of the k best allowed scores, best first, equal ones ascending. */
export function topK(scores, k, allowed) {
  const best = [];
  for (let code = 0; code < scores.length; code++) {
    const score = scores[code];
    if (Number.isNaN(score)) throw new Error("The scores hold NaN: the model is broken.");
    if (!allowed[code] || (best.length === k && score <= scores[best[k - 1]])) continue;
    let place = best.length;
    while (place > 0 && scores[best[place - 1]] < score) place -= 1;
    best.splice(place, 0, code);
    if (best.length > k) best.pop();
  }
  return best;
}
