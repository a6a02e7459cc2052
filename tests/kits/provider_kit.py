"""An identity provider for tests: OpenID Connect over HTTP on this machine, with what a test makes wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "privacy-gateway", "s" * 40


class Provider:
    """`claims`: of the person who signs in. `wrong`: replaces claims of the ID token. `key`: signs it."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
        self.published = [self.key]
        self.claims: dict[str, Any] = {"sub": "anna", "groups": ["search-team"]}
        self.wrong: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.is_down = False
        self.token_requests: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if provider.is_down:
                    self.send_error(503)
                elif self.path.endswith("/openid-configuration"):
                    provider._send(self, provider._metadata())
                elif self.path == "/keys":
                    keys = KeySet(provider.published).as_dict(private=False)
                    provider._send(self, keys)
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                provider._send(self, provider._token(form, self.headers.get("authorization", "")))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def setting(self, **grants: dict[str, Any]) -> str:
        settings = {"issuer": self.issuer, "client_id": CLIENT, "key_env": "TEST_SIGN_ON_KEY", "grants": grants}
        return json.dumps(settings)

    def approve(self, address: str) -> str:
        """What a person's browser gets after signing in at `address`: the gateway's address with code and state."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        return f"{urlsplit(asked['redirect_uri']).path}?{query}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _metadata(self) -> dict[str, str]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def _token(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        self.token_requests.append(form)
        asked = self._codes.pop(form.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).decode()
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if asked is None or proof.rstrip("=") != asked["code_challenge"] or authorization != f"Basic {expected}":
            return {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": asked["nonce"]}
        claims |= self.claims | self.wrong
        header = {"alg": self.algorithm, "kid": "1"}
        token = jwt.encode(header, claims, self.key, algorithms=[self.algorithm])
        return {"access_token": "unused", "token_type": "Bearer", "id_token": token}

    def _send(self, handler: BaseHTTPRequestHandler, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        handler.send_response(400 if "error" in content else 200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
