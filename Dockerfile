# ctrlhost with all bundled plugins: `docker build -t ctrlhost .`, then `docker run ctrlhost run --plugins hostname,naming`.
# At run time nothing writes to the image, no process is root, and nothing calls a shell.

FROM rust:1.90-slim-bookworm AS wheels
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements requirements
# The versions that the tests ran with. Wheels built here have no hashes, so the hashes are removed.
RUN sed -E '/^ +--hash/d; s/ \\$//' requirements/dev.txt > /constraints.txt \
    && python3 -m venv /build \
    && /build/bin/pip install --no-cache-dir --constraint /constraints.txt maturin hatchling
COPY pyproject.toml Cargo.toml Cargo.lock README.md LICENSE ./
COPY rust rust
COPY ctrlhost ctrlhost
RUN /build/bin/maturin build --release --locked --out /wheels
COPY plugins plugins
RUN for plugin in plugins/*/; do \
      (cd "$plugin" && /build/bin/python -m hatchling build --target wheel --directory /wheels) || exit 1; \
    done

FROM python:3.13-slim-bookworm AS installed
COPY --from=wheels /constraints.txt /constraints.txt
COPY --from=wheels /wheels /wheels
# Compile now: the image is read-only later.
RUN python -m venv /opt/ctrlhost \
    && /opt/ctrlhost/bin/pip install --no-cache-dir --constraint /constraints.txt --compile /wheels/*.whl \
    && /opt/ctrlhost/bin/pip uninstall --yes pip

FROM python:3.13-slim-bookworm
COPY --from=installed /opt/ctrlhost /opt/ctrlhost
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that Kubernetes can check `runAsNonRoot`.
USER 65532:65532
EXPOSE 8484
ENTRYPOINT ["/opt/ctrlhost/bin/ctrlhost"]
CMD ["run"]
