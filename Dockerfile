# The server: `dallyd` and the client `dally`, without anything that builds.
#
#   docker build -t dally:0.1.0 .
#
# The base is an argument, so that the very same file is built without a registry (tools/images.py). It
# needs Python 3.11 or newer with venv, at the same place in both stages.
ARG BASE=docker.io/library/python:3.12-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY requirements-server.lock ./
RUN python3 -m venv /opt/dally \
    && /opt/dally/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-server.lock
COPY pyproject.toml README.md LICENSE ./
COPY runtime runtime
COPY migrations migrations
COPY scheduler scheduler
COPY api api
COPY cli cli
COPY simulator simulator
COPY server server
# What was installed to build is taken away again, pip itself last; and the half of the Kubernetes client that
# nobody imports here, which is the largest part of the image.
RUN /opt/dally/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . ./runtime \
    && rm -r /opt/dally/lib/python3*/site-packages/kubernetes/aio \
    && /opt/dally/bin/python -m pip uninstall --yes --quiet setuptools pip \
    && /opt/dally/bin/python -c "import scheduler.adapters.kubernetes.cluster, server.serving"

FROM ${BASE}
RUN groupadd --gid 10001 dally \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/dally --shell /usr/sbin/nologin dally \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/dally
COPY --from=build /opt/dally /opt/dally
ENV PATH=/opt/dally/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DALLYD_DATA_DIR=/var/lib/dally
USER 10001:10001
WORKDIR /var/lib/dally
VOLUME /var/lib/dally
EXPOSE 8470
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python3", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ.get(\"DALLYD_PORT\") or 8470}/livez', timeout=4)"]
ENTRYPOINT ["dallyd"]
CMD ["serve"]
