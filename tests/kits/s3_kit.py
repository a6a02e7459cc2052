"""A real S3 server for tests, in a process of its own."""

import json
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gateway_kit import free_port
from wait_kit import until

from core.blobs.store import StoreOptions

# S3 creates a blob once, also for several writers at a time; this server looks first and puts then, so one at a time
_SERVER = """
import threading
from moto.s3.responses import S3Response
from moto.server import main

alone, put = threading.Lock(), S3Response.put_object

def put_alone(response):
    with alone:
        return put(response)

S3Response.put_object = put_alone
main()
"""


@dataclass
class S3Server:
    """A server with one bucket for each test. `address` serves no other machine."""

    address: str
    process: subprocess.Popen[bytes]

    def bucket(self) -> str:
        """The URL of a new, empty bucket."""
        name = f"bucket-{secrets.token_hex(6)}"
        request = urllib.request.Request(f"{self.address}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=120).close()
        return f"s3://{name}/gateway"

    def options(self, **changed: str) -> StoreOptions:
        return StoreOptions(config={**self.config, **changed}, plain_http=True, timeout_s=120, retries_max=1)

    @property
    def config(self) -> dict[str, str]:
        return {
            "endpoint": self.address,
            "region": "us-east-1",
            "access_key_id": "testing",
            "secret_access_key": "testing",
        }

    def environment(self, url: str) -> dict[str, str]:
        """The settings of a gateway that uses this bucket."""
        return {
            "PRIVACY_GATEWAY_STORE_URL": url,
            "PRIVACY_GATEWAY_STORE_OPTIONS": json.dumps(self.config),
            "PRIVACY_GATEWAY_STORE_PLAIN_HTTP": "true",
        }

    def wait_ready(self) -> None:
        """Until it answers anything."""

        def is_answered() -> bool:
            assert self.process.poll() is None
            try:
                urllib.request.urlopen(f"{self.address}/moto-api/", timeout=30).close()
            except OSError as error:
                return isinstance(error, urllib.error.HTTPError)
            return True

        until(is_answered)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    port = free_port()
    command = [sys.executable, "-c", _SERVER, "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = S3Server(f"http://127.0.0.1:{port}", process)
    try:
        server.wait_ready()
        yield server
    finally:
        process.kill()
        process.wait()
