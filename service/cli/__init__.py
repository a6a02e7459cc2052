from service.cli.main import app

__all__ = ["app"]
