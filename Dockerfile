# The gateway: front end and workers in one image.
#   docker build -t privacy-gateway:gpu .
#   docker build -t privacy-gateway:cpu --build-arg TORCH_INDEX_URL=... .
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS build
# A package index that carries CPU builds of torch; without one, the default index decides (on Linux: CUDA builds).
ARG TORCH_INDEX_URL=
# Extras of pyproject.toml, separated by commas, such as otel.
ARG EXTRAS=
# The libraries come before the code, so that a change of the code does not install them again.
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE privacy_gateway.py /app/
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir -c /app/constraints.txt ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch \
    && /venv/bin/pip install --no-cache-dir -c /app/constraints.txt "/app${EXTRAS:+[$EXTRAS]}"
COPY service /app/service
COPY core /app/core
COPY gpu_workers /app/gpu_workers
RUN /venv/bin/pip install --no-cache-dir --no-deps --force-reinstall /app \
    && /venv/bin/python -m gpu_workers.models.integer.compiled

FROM python:${PYTHON_VERSION}-slim
RUN useradd --system --uid 10001 --create-home gateway && install -d -o gateway -m 0700 /data /store
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 \
    PRIVACY_GATEWAY_DATA_DIR=/data \
    PRIVACY_GATEWAY_HOST=0.0.0.0 \
    PRIVACY_GATEWAY_PORT=8000
USER gateway
WORKDIR /home/gateway
VOLUME /data
EXPOSE 8000
# /readyz runs a canary through the workers, which may take 10 s. They load their models in the start period.
HEALTHCHECK --interval=15s --timeout=15s --start-period=600s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['PRIVACY_GATEWAY_PORT'] + '/readyz', timeout=14)"]
ENTRYPOINT ["privacy-gateway"]
CMD ["serve"]
