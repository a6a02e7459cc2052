"""Files of projections: sent once to a client that keeps them."""

from gateway_kit import Tenant

PCA = "/models/projections/pca-384"


def test_an_unchanged_file_of_axes_is_not_sent_again(tenant: Tenant) -> None:
    first = tenant.http.get(f"{PCA}-8")
    etag = first.headers["etag"]
    again = tenant.http.get(f"{PCA}-8", headers={"If-None-Match": f'"other", {etag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    other = tenant.http.get(f"{PCA}-9", headers={"If-None-Match": etag})
    assert (other.status_code, other.headers["etag"] != etag) == (200, True)
    own = tenant.http.get("/models/projections/gaussian-384-8")
    assert "etag" not in own.headers
    assert own.headers["cache-control"] == "no-store"
