"""Words in names that are no names: particles, titles and what follows a name."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTICLES = _words(
    """
    van von der den de del della dei di da das do dos du des le la les los ter ten te zu zur zum vom af av y e i bin
    ibn al el jr sr ii iii iv dr prof mr mrs ms miss sir mx phd md esq herr frau fr hr dipl ing mag monsieur madame
    mademoiselle mme mlle señor señora sr sra srta don doña signor signora signorina sig sigra dott dottssa
    dottoressa ing avv mevr mevrouw dhr meneer drs hab mgr lic senhor senhora dona pan pani pana panu mgr inż doc s
    """
)
FEMALE_TITLES = _words(
    """
    mrs ms miss frau madame mademoiselle mme mlle señora sra srta doña signora signorina sigra dottoressa mevr
    mevrouw senhora dona pani
    """
)
MALE_TITLES = _words(
    """
    mr sr sir herr hr monsieur señor don signor sig dhr meneer senhor pan pana panu
    """
)
