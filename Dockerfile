# The gateway: front end and workers in one image.
#   docker build --target cpu -t privacy-gateway:cpu .
#   docker build --target gpu -t privacy-gateway:gpu .
# --build-arg EXTRAS=otel adds extras of pyproject.toml, separated by commas.
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS source
WORKDIR /app
COPY pyproject.toml README.md LICENSE NOTICE privacy_gateway.py ./
COPY service service
COPY core core
COPY gpu_workers gpu_workers

FROM python:${PYTHON_VERSION}-slim AS build-cpu
# A package index that carries CPU builds of torch; without one, the default index decides (on Linux: CUDA builds).
ARG TORCH_INDEX_URL=
ARG EXTRAS=
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch==2.13.0
COPY --from=source /app /app
RUN /venv/bin/pip install --no-cache-dir "/app${EXTRAS:+[$EXTRAS]}" \
    && /venv/bin/python -m gpu_workers.models.integer.compiled

FROM python:${PYTHON_VERSION}-slim AS build-gpu
ARG EXTRAS=
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir torch==2.13.0
COPY --from=source /app /app
RUN /venv/bin/pip install --no-cache-dir "/app${EXTRAS:+[$EXTRAS]}" \
    && /venv/bin/python -m gpu_workers.models.integer.compiled

FROM python:${PYTHON_VERSION}-slim AS runtime
RUN useradd --system --uid 10001 --create-home gateway && install -d -o gateway -m 0700 /data
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 \
    PRIVACY_GATEWAY_DATA_DIR=/data \
    PRIVACY_GATEWAY_HOST=0.0.0.0
USER gateway
WORKDIR /home/gateway
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["privacy-gateway"]
CMD ["serve"]

FROM runtime AS gpu
COPY --from=build-gpu /venv /venv

FROM runtime AS cpu
COPY --from=build-cpu /venv /venv
