# syntax=docker/dockerfile:1

# Both programs, static, on a base without a shell and without root.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 make build VERSION="$VERSION"

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/bin/fencerow /src/bin/fencerowd /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/fencerowd"]
