# ctrlhost with all bundled plugins: `make image`, then `docker run ctrlhost run --plugins hostname,naming`.
# The base images are those of image/bases.lock, the packages those of requirements/*.txt, by their hashes.
# At run time nothing writes to the image, no process is root, and there is no shell, compiler or pip.
ARG RUST_IMAGE
ARG DEBIAN_IMAGE
ARG PYTHON_IMAGE

FROM ${RUST_IMAGE} AS wheels
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml Cargo.toml Cargo.lock LICENSE /source/
COPY release/description.md /source/release/
COPY requirements /source/requirements
COPY rust /source/rust
COPY ctrlhost /source/ctrlhost
COPY plugins /source/plugins
COPY image /source/image
ARG REVISION
ENV CTRLHOST_REVISION=${REVISION}
RUN /source/image/wheels.sh /source /wheels

# The same Debian, and so the same Python, as the last stage.
FROM ${DEBIAN_IMAGE} AS installed
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY requirements /requirements
COPY image /image
COPY --from=wheels /wheels /wheels
RUN /image/install.sh /requirements/runtime.txt /wheels /opt/ctrlhost

FROM ${PYTHON_IMAGE}
ARG SOURCE
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=installed /opt/ctrlhost /opt/ctrlhost
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# For `kubectl exec POD -- ctrlhost …`.
ENV PATH=/opt/ctrlhost/bin:/usr/local/bin:/usr/bin:/bin
# A number, so that Kubernetes can check `runAsNonRoot`.
USER 65532:65532
EXPOSE 8484 8443
ENTRYPOINT ["/opt/ctrlhost/bin/ctrlhost"]
CMD ["run"]
