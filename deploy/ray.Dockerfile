# An image for the nodes of a Ray cluster that runs jobs: that of the gateway, with Ray.
#   docker build -t privacy-gateway:ray -f deploy/ray.Dockerfile --build-arg IMAGE=privacy-gateway:gpu .
ARG IMAGE=privacy-gateway:cpu
FROM ${IMAGE}
ARG RAY_VERSION=2.60.0
USER root
RUN /venv/bin/python -m ensurepip && /venv/bin/python -m pip install --no-cache-dir "ray[default]==${RAY_VERSION}"
USER gateway
HEALTHCHECK NONE
ENTRYPOINT []
CMD ["ray", "start", "--help"]
