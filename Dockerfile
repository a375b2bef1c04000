# ctrlhost with all bundled plugins: `docker build -t ctrlhost .`, then `docker run ctrlhost run --plugins hostname,naming`.
# Nothing in the image is written to at run time, no user is root, and no shell is called.

FROM rust:1.90-slim-bookworm AS wheels
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements requirements
# The versions that the tests ran with; what is built here has no hashes, so those stay behind.
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
# Compiled here, since there is no writing it down later.
RUN python -m venv /opt/ctrlhost \
    && /opt/ctrlhost/bin/pip install --no-cache-dir --constraint /constraints.txt --compile /wheels/*.whl \
    && /opt/ctrlhost/bin/pip uninstall --yes pip

FROM python:3.13-slim-bookworm
COPY --from=installed /opt/ctrlhost /opt/ctrlhost
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that `runAsNonRoot` can be checked.
USER 65532:65532
EXPOSE 8484
ENTRYPOINT ["/opt/ctrlhost/bin/ctrlhost"]
CMD ["run"]
