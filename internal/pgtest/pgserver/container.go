package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

const (
	// defaultImage is pinned, so that a run today tests what a run next year tests.
	defaultImage = "postgres:17.6-bookworm"
	// engineTimeout bounds the question whether an engine answers at all.
	engineTimeout = 5 * time.Second
	// containerTimeout covers the pull of the image.
	containerTimeout = 5 * time.Minute
)

// errNoContainer says that a container is no way to a server here, and that the next way may be tried.
var errNoContainer = errors.New("no container")

// startContainer returns errNoContainer where no engine answers, or the default image cannot be had. An image
// that the environment names is not given up for another way.
func startContainer(ctx context.Context, logf func(format string, args ...any)) (*Server, error) {
	tclog.SetDefault(tclog.NewNoopLogger()) // it would write into the output of the tests
	image := os.Getenv(EnvImage)
	err := engineAnswers(ctx)
	switch {
	case err != nil && image == "":
		return nil, errNoContainer
	case err != nil:
		return nil, fmt.Errorf("%s is set, but no container engine answers: %w", EnvImage, err)
	case image != "":
		return runContainer(ctx, image)
	}
	server, err := runContainer(ctx, defaultImage)
	if err != nil {
		logf("container engine: no server of image %s: %v", defaultImage, err)
		return nil, errNoContainer
	}
	return server, nil
}

// engineAnswers asks for the engine that testcontainers would use.
func engineAnswers(ctx context.Context) (err error) {
	defer func() {
		// The library panics where it finds no engine's address.
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	client, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	return client.Close()
}

func runContainer(ctx context.Context, image string) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	args := []string{"postgres"}
	values := settings()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		args = append(args, "-c", name+"="+values[name])
	}
	container, err := postgres.Run(ctx, image, postgres.BasicWaitStrategies(), testcontainers.WithCmd(args...))
	if err != nil {
		return nil, errors.Join(err, lastWords(ctx, container), testcontainers.TerminateContainer(container))
	}
	dsn, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(container))
	}
	return &Server{
		DSN:    dsn,
		Source: "a container of image " + image,
		close:  func() error { return testcontainers.TerminateContainer(container) },
	}, nil
}

// lastWords returns the end of a failed container's log as an error; nil where there is none.
func lastWords(ctx context.Context, container *postgres.PostgresContainer) error {
	if container == nil || container.Container == nil {
		return nil
	}
	logs, err := container.Logs(ctx)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(logs)
	if err != nil || len(content) == 0 {
		return err
	}
	return fmt.Errorf("the container's log ends with:\n%s", content[max(0, len(content)-logTail):])
}
