# scylla alone: its library and the files of the extension, for servers that mount images as volumes, as
# those of CloudNativePG do. Takes PostgreSQL 18 or later, which finds them by extension_control_path.
#   docker build -f docker/extension.Dockerfile -t scylla-extension:18 .
# It is built on the servers' own image: the library must fit their PostgreSQL and their libc.
ARG SERVER_IMAGE=ghcr.io/cloudnative-pg/postgresql:18-minimal-trixie
ARG RUST_IMAGE=docker.io/library/rust:1.95-slim-trixie

FROM ${RUST_IMAGE} AS rust

FROM ${SERVER_IMAGE} AS build
ARG PG=18
USER root
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH
WORKDIR /root/scylla
COPY . .
RUN PG=${PG} docker/build /out image

FROM scratch
COPY --from=build /out/image/ /
USER 65532:65532
