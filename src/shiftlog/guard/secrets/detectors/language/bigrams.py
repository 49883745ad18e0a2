"""Tells random text from words and identifiers by their pairs of characters.

The table gives the bits that the second character of a pair costs in the identifiers and texts of Python's standard
library. Text that costs more than random characters would is probably random.
"""

from itertools import pairwise

_SIGNS = "abcdefghijklmnopqrstuvwxyz0-"  # `0` is any digit, `-` everything else
#: A row for each first character, a digit for each second one: `q` costs nothing much before `u` only.
_COSTS = """
9544875959634495934366776996
3767398944937846955739994864
3968389359447927956358997985
4675276939968848954759997972
4844667989935385733497757993
4987549939959948956459998971
5988297549957468944748999972
2998299939977939956569998994
6644555999945235954396979698
5989299979799926983939999973
6986187939959575973769699983
4885229939949837995558996994
2576299949864833994669998995
4943363959668647984366998993
7654955979644254934546589985
3986389759849934935458995984
8997999999949798866809999975
4965285949675537954456995994
5959298449778955884359796993
4967279439957946944559895993
5555467959934374934399989977
2999199939997858998999899965
3986389439969339935799789993
5947479849967974987299977933
7767578859965463973388698982
4989199649965749985889987754
7665669999999979998899949912
4545545647655554843466699953
"""
_BITS = {
    f"{first}{second}": int(cost)
    for first, row in zip(_SIGNS, _COSTS.split(), strict=True)
    for second, cost in zip(_SIGNS, row, strict=True)
}
_LETTER_BITS, _DIGIT_BITS = 5.0, 2.6  # what a random character costs
_TURN_BITS, _NO_TURN_BITS = 2.2, 0.9  # letters of random text change their case at every second place


def randomness(value: str) -> float:
    """Return how many bits speak for a random value rather than for words."""
    signs = "".join(sign if "a" <= sign <= "z" else "0" if sign.isdigit() else "-" for sign in value.lower())
    bits = sum(map(_BITS.__getitem__, map("".join, pairwise(signs))))
    digits = signs.count("0", 1)
    bits -= digits * _DIGIT_BITS + (len(signs) - 1 - digits) * _LETTER_BITS
    if value.islower() or value.isupper():
        return bits
    pairs = [(first, second) for first, second in pairwise(value) if first.isalpha() and second.isalpha()]
    turns = sum(first.islower() != second.islower() for first, second in pairs)
    return bits + turns * _TURN_BITS - (len(pairs) - turns) * _NO_TURN_BITS
