"""The division that the ledger's script chooses, in Python."""

from collections.abc import Mapping

from core.accounting.filters import Arms, Division, Sums, admits


def division_of(offered: Mapping[Division, Arms], first: Sums) -> Division:
    """The division that the first release of an account decides: what `chosen_limit` in reserve.lua must agree with.

    The one for its kind; BASIC where that one does not admit the release and basic composition at the whole delta
    does. So an account admits every single release that its limit covers.
    """
    division = Division.BASIC if first.no_rho else Division.GAUSSIAN if first.no_square else Division.PURE
    if not admits(offered[division], first) and admits(offered[Division.BASIC], first):
        return Division.BASIC
    return division
